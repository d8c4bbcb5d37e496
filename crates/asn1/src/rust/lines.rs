//! Rust text as a generator writes it: line by line, each as far to the right as the brackets around it say. Nothing
//! that was written is looked at again.

use std::fmt;

/// Lines of Rust. `writeln!` adds to them, and cannot fail.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    /// None yet.
    pub fn new() -> Lines {
        Lines::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Their text.
    pub fn into_text(self) -> String {
        self.text
    }

    /// What `writeln!` calls. What ends with an opening bracket puts the lines behind it one step further in, what
    /// begins with a closing one is a step further out itself; of several lines at once those behind the first
    /// continue it.
    pub fn write_fmt(&mut self, lines: fmt::Arguments<'_>) {
        for (n, line) in lines.to_string().lines().enumerate() {
            if line.starts_with(['}', ')', ']']) {
                self.depth = self.depth.saturating_sub(1);
            }
            if !line.is_empty() {
                (0..self.depth + n.min(1)).for_each(|_| self.text.push_str("    "));
                self.text.push_str(line);
            }
            self.text.push('\n');
            if line.ends_with(['{', '(', '[']) && !line.starts_with("//") {
                self.depth += 1;
            }
        }
    }
}
