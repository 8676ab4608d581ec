//! A small bar chart in the terminal.

/// How the terminal wants to be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Block characters; without it, plain ASCII.
    pub unicode: bool,
    /// Colours.
    pub color: bool,
}

impl Style {
    /// Colours only on a terminal and without NO_COLOR; blocks only in a UTF-8 locale.
    #[must_use]
    pub fn detect() -> Self {
        use std::io::IsTerminal;
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .filter_map(|key| std::env::var(key).ok())
            .find(|value| !value.is_empty())
            .unwrap_or_default()
            .to_ascii_lowercase();
        Self {
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
            color: std::io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Text in an ANSI style (such as "1" for bold), or plain.
    #[must_use]
    pub fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Bars from left to right, `rows` lines high, the top of the chart at `top`. Higher bars are cut, and marked as cut in the top line.
#[must_use]
pub fn bars(values: &[u64], top: u64, rows: usize, style: Style) -> Vec<String> {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const PLAIN: [char; 9] = [' ', '.', '.', '.', ':', ':', ':', '#', '#'];
    let (levels, cut) = if style.unicode {
        (BLOCKS, '▲')
    } else {
        (PLAIN, '^')
    };
    let top = top.max(1);
    (0..rows)
        .map(|row| {
            let below = (rows - 1 - row) as u64 * 8;
            values
                .iter()
                .map(|value| {
                    // In eighths of a line, rounded up: what is not zero is seen.
                    let height = (value * rows as u64 * 8).div_ceil(top);
                    if row == 0 && *value > top {
                        return cut;
                    }
                    usize::try_from(height.saturating_sub(below).min(8))
                        .map_or(' ', |eighths| levels[eighths])
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Style, bars};

    #[test]
    fn bars_fill_from_below_and_cut_at_the_top() {
        let style = Style {
            unicode: false,
            color: false,
        };
        assert_eq!(
            bars(&[0, 5, 10, 20], 10, 2, style),
            [" .#^".replace('.', " "), " ###".to_owned()]
        );
        let blocks = Style {
            unicode: true,
            color: false,
        };
        assert_eq!(bars(&[1], 8, 1, blocks), ["▁"]);
    }
}
