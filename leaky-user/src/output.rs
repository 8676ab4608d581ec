//! Standard output, written by a thread of its own: a reader that does not read must not keep leaky
//! from its signals, nor from seeing that the limit is still in force.

use crate::report::{CountersReport, Event, InstallReport};
use std::io::{Error, ErrorKind, Result, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// How reports are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Words; a line a second only if standard output is a terminal.
    Words {
        /// Whether standard output is a terminal.
        terminal: bool,
    },
    /// One JSON object per line.
    Json,
}

/// Reports that may wait for the reader. Those that come while so many wait are left out.
const WAITING: usize = 64;
/// How long the end waits for the reader.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where reports go. Dropping it waits until they are written, but not for long.
#[derive(Debug)]
pub struct Output {
    format: Format,
    lines: Option<SyncSender<String>>,
    writer: JoinHandle<()>,
}

impl Output {
    /// Standard output in this format.
    pub fn new(format: Format) -> Output {
        let (lines, waiting) = sync_channel(WAITING);
        Output {
            format,
            lines: Some(lines),
            writer: spawn(move || write_all(&waiting)),
        }
    }

    /// Reports the installation.
    ///
    /// # Errors
    /// When standard output cannot be written, as after the reader of a pipe is gone. It is noticed
    /// with the report after the one that failed.
    pub fn installed(&self, report: &InstallReport) -> Result<()> {
        self.print(&report.words, &Event::Installed(report))
    }

    /// Reports what was counted in the last `elapsed_ns`.
    ///
    /// # Errors
    /// As [`Output::installed`].
    pub fn counters(
        &self,
        report: &CountersReport,
        before: &CountersReport,
        elapsed_ns: u64,
    ) -> Result<()> {
        match self.format {
            Format::Words { terminal: false } => Ok(()),
            _ => self.print(&report.line(before, elapsed_ns), &Event::Counters(report)),
        }
    }

    /// Reports an event, if somebody reads.
    pub fn notice(&self, text: &str) {
        // That nobody reads is no reason to stop limiting; where it matters, the counters tell.
        let _ = self.print(&format!("note: {text}"), &Event::Notice { text });
    }

    /// Reports the end.
    ///
    /// # Errors
    /// As [`Output::installed`].
    pub fn summary(&self, report: &CountersReport, interface: &str, elapsed_ns: u64) -> Result<()> {
        self.print(
            &report.in_words(interface, elapsed_ns),
            &Event::Summary(report),
        )
    }

    fn print(&self, words: &str, event: &Event) -> Result<()> {
        let line = match self.format {
            Format::Words { .. } => format!("{words}\n"),
            Format::Json => format!("{}\n", serde_json::to_string(event)?),
        };
        let sent = self.lines.as_ref().map(|lines| lines.try_send(line));
        match sent {
            Some(Ok(()) | Err(TrySendError::Full(_))) => Ok(()),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(Error::new(
                ErrorKind::BrokenPipe,
                "nobody reads it any more",
            )),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.lines = None;
        let begin = Instant::now();
        while !self.writer.is_finished() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes until there is nothing more to come or nobody to read it.
fn write_all(waiting: &Receiver<String>) {
    let mut out = std::io::stdout();
    while let Ok(line) = waiting.recv() {
        if out
            .write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
    }
}
