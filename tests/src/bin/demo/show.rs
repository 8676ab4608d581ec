//! How the demo looks: 80 columns, readable without colours and without Unicode.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use leaky_tests::plot::{Style, bars};
use leaky_tests::stats::us;

use crate::scene::{Pass, Scene, Traffic};

/// Columns of a chart: 10 ms each.
const COLUMNS: usize = 70;
const ROWS: usize = 5;
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const TEXT_WIDTH: usize = 76;

pub(crate) struct Page {
    style: Style,
}

impl Page {
    pub(crate) fn new(style: Style) -> Self {
        Self { style }
    }

    fn line(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }

    fn paragraph(&self, indent: &str, text: &str) -> Result<()> {
        for line in wrap(text, TEXT_WIDTH - indent.len()) {
            self.line(&format!("{indent}{line}"))?;
        }
        Ok(())
    }

    pub(crate) fn introduction(&self) -> Result<()> {
        self.line(&self.style.paint(
            BOLD,
            "leaky: packets leave at a constant rate, however unevenly they come",
        ))?;
        self.line("")?;
        self.paragraph(
            "",
            "Two network namespaces are joined by a virtual cable. One sends, the other notes when the kernel received \
             each packet. Everything is real: real sockets, the real kernel, the real program. Each sender runs \
             twice, without leaky and with it. It takes about half a minute; Ctrl-C ends it and leaves nothing behind.",
        )
    }

    pub(crate) fn scene_title(&self, number: u32, scene: &Scene) -> Result<()> {
        self.line("")?;
        self.line(
            &self
                .style
                .paint(BOLD, &format!("{number}. {}", scene.title)),
        )?;
        self.paragraph("   ", scene.what)?;
        let command = self
            .style
            .paint(BOLD, &format!("leaky run v0 --rate {}", scene.rate));
        self.line(&format!("   The command: {command}"))
    }

    pub(crate) fn note(&self, text: &str) -> Result<()> {
        self.line(&self.style.paint(DIM, &format!("   {text}")))
    }

    pub(crate) fn comparison(&self, scene: &Scene, without: &Pass, with: &Pass) -> Result<()> {
        // In the middle of the chart: four times the limit at most, or what is small would not be seen.
        let limit = scene.rate_bytes_per_second / 100;
        let largest = without
            .each_10_ms
            .iter()
            .chain(&with.each_10_ms)
            .max()
            .copied()
            .unwrap_or(0);
        let top = largest.min(limit * 4).max(1);
        self.line("")?;
        self.line(&format!(
            "   Bytes that arrive in each 10 ms (one column); the limit is {}.",
            grouped(limit)
        ))?;
        self.chart("without leaky", RED, without, top)?;
        self.chart("with leaky", GREEN, with, top)?;
        self.line("")?;
        self.table(scene, without, with)?;
        self.line("")?;
        self.paragraph("   ", scene.look)
    }

    fn chart(&self, name: &str, color: &str, pass: &Pass, top: u64) -> Result<()> {
        let shown = &pass.each_10_ms[..pass.each_10_ms.len().min(COLUMNS)];
        let largest = shown.iter().max().copied().unwrap_or(0);
        self.line("")?;
        self.line(&format!(
            "   {}: at most {} B in 10 ms",
            self.style.paint(color, name),
            grouped(largest)
        ))?;
        let side = if self.style.unicode { '│' } else { '|' };
        for row in bars(shown, top, ROWS, self.style) {
            self.line(&format!(
                "   {side}{}",
                self.style.paint(color, row.trim_end())
            ))?;
        }
        let floor = if self.style.unicode {
            ("└", "─")
        } else {
            ("+", "-")
        };
        self.line(&format!("   {}{}", floor.0, floor.1.repeat(COLUMNS)))?;
        if largest > top {
            let mark = if self.style.unicode { '▲' } else { '^' };
            self.line(&self.style.paint(
                DIM,
                &format!(
                    "    {mark} goes beyond the top of the chart, which is {} B",
                    grouped(top)
                ),
            ))?;
        }
        Ok(())
    }

    fn table(&self, scene: &Scene, without: &Pass, with: &Pass) -> Result<()> {
        let offered = |pass: &Pass| pass.offered.map_or_else(|| "all it can".to_owned(), rate);
        let lump = |pass: &Pass| match pass.largest_lump {
            (bytes, 1) => format!("{} B", grouped(bytes.into())),
            (bytes, frames) => format!("{} B = {frames} frames", grouped(bytes.into())),
        };
        let rows = [
            ("offered", offered(without), offered(with)),
            ("delivered", rate(without.delivered), rate(with.delivered)),
            (
                "time between packets: median",
                micro(without.gaps.p50),
                micro(with.gaps.p50),
            ),
            (
                "                      99 %",
                micro(without.gaps.p99),
                micro(with.gaps.p99),
            ),
            (
                "                      longest",
                micro(without.gaps.max),
                micro(with.gaps.max),
            ),
            (
                "bytes in a millisecond: 99 %",
                bytes(without.full_millisecond),
                bytes(with.full_millisecond),
            ),
            (
                "                        most",
                bytes(without.fullest_millisecond),
                bytes(with.fullest_millisecond),
            ),
            ("largest lump", lump(without), lump(with)),
        ];
        self.line(&self.style.paint(
            BOLD,
            &format!("   {:<30}{:>20}{:>24}", "", "without leaky", "with leaky"),
        ))?;
        for (name, without, with) in rows {
            self.line(&format!("   {name:<30}{without:>20}{with:>24}"))?;
        }
        let Some((installed, counters)) = &with.leaky else {
            return Ok(());
        };
        let drops: Vec<String> = counters
            .dropped
            .iter()
            .filter(|(_, amount)| amount.packets > 0)
            .map(|(reason, amount)| {
                format!("{} ({})", grouped(amount.packets), reason.replace('_', " "))
            })
            .collect();
        let drops = if drops.is_empty() {
            "none".to_owned()
        } else {
            drops.join(", ")
        };
        self.line(&format!(
            "   {:<30}{:>20}{drops:>24}",
            "packets dropped by leaky", "-"
        ))?;
        let counted = format!(
            "{} of {}",
            grouped(counters.delayed_packets),
            grouped(counters.accepted_packets)
        );
        self.line(&format!(
            "   {:<30}{:>20}{counted:>24}",
            "packets that had to wait", "-"
        ))?;
        if let (Traffic::Bursts { frame_bytes, .. }, true) =
            (&scene.traffic, scene.rate_bytes_per_second > 0)
        {
            let even = u64::from(*frame_bytes) * 1_000_000_000 / scene.rate_bytes_per_second;
            self.note(&format!(
                "an even stream of {frame_bytes} B at the limit has {} between packets",
                micro(even)
            ))?;
        }
        self.paragraph(
            "   ",
            &format!("held by {}: {}", installed.hold, installed.hold_reason),
        )
    }

    pub(crate) fn end(&self, binary: &Path) -> Result<()> {
        let binary = binary.canonicalize().unwrap_or_else(|_| binary.to_owned());
        self.line("")?;
        self.line(&self.style.paint(
            BOLD,
            "On an interface of your own (Ctrl-C puts everything back):",
        ))?;
        self.line(&format!(
            "   sudo {} run eth0 --rate 20mbit",
            binary.display()
        ))?;
        self.line("")?;
        self.line("The namespaces are gone again. Nothing else was touched.")
    }
}

/// Bits per second with two decimals.
fn rate(bytes_per_second: u64) -> String {
    let bits = bytes_per_second * 8;
    let (unit, name) = match bits {
        0..1_000_000 => (1_000, "kbit/s"),
        1_000_000..1_000_000_000 => (1_000_000, "Mbit/s"),
        _ => (1_000_000_000, "Gbit/s"),
    };
    let hundredths = (bits + unit / 200) * 100 / unit;
    format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
}

fn bytes(count: u64) -> String {
    format!("{} B", grouped(count))
}

fn micro(ns: u64) -> String {
    format!("{} us", us(ns))
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines
            .last_mut()
            .filter(|line| line.is_empty() || line.len() + 1 + word.len() <= width);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{grouped, rate, wrap};

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(rate(1_250_000), "10.00 Mbit/s");
        assert_eq!(rate(1_000), "8.00 kbit/s");
        assert_eq!(rate(400_000_000), "3.20 Gbit/s");
    }

    #[test]
    fn lines_are_no_longer_than_the_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
    }
}
