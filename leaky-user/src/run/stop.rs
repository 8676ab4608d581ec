//! The signals that `leaky run` listens to.

use super::Error;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// What asks leaky to stop: SIGINT, SIGTERM, and SIGHUP unless it was started to ignore it (nohup). With
/// a config file SIGHUP asks to read it again.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
    reload: bool,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To end.
    Stop,
    /// To read the config file again.
    Reload,
}

impl Stop {
    pub(super) fn new(reload: bool) -> Result<Stop, Error> {
        let listen = |kind| signal(kind).map_err(|error| Error::Process("wait for signals", error));
        let hangup = match is_hangup_ignored() && !reload {
            true => None,
            false => Some(listen(SignalKind::hangup())?),
        };
        Ok(Stop {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup,
            reload,
        })
    }

    /// Waits for the next one.
    pub(super) async fn asked(&mut self) -> Wish {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.terminate.recv() => Wish::Stop,
            _ = hangup => if self.reload { Wish::Reload } else { Wish::Stop },
        }
    }

    /// Whether it has been asked to end by now.
    pub(super) async fn was_asked(&mut self) -> bool {
        // Long enough for the runtime to look at what has come.
        let while_signals_come = Duration::from_millis(1);
        timeout(while_signals_come, self.asked_to_stop())
            .await
            .is_ok()
    }

    /// Waits until it is asked to end; a wish to read the file again has no meaning any more.
    pub(super) async fn asked_to_stop(&mut self) {
        while self.asked().await != Wish::Stop {}
    }
}

/// Whether this process was started with SIGHUP ignored: bit 0 of the mask in proc_pid_status(5).
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
