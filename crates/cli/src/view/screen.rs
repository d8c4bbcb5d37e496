//! A terminal that is ours for a while, and as it was afterwards, however we leave: keys come one by one,
//! pictures replace each other on a screen beside the user's own.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};

/// What happened while nobody drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The time has come.
    Timeout,
    /// A key.
    Key(u8),
    /// The window has another size.
    Resized,
    /// A signal says to end, or the terminal is gone.
    End,
}

/// The terminal, until it is dropped.
pub struct Screen {
    before: Termios,
    end: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Standard input is none, or what the operating system says.
    pub fn open() -> io::Result<Screen> {
        let before = tcgetattr(io::stdin())?;
        let (end, resized) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register(signal, end.clone())?;
        }
        signal_hook::flag::register(SIGWINCH, resized.clone())?;
        let mut ours = before.clone();
        // Ctrl-C and Ctrl-Z come as keys: nothing stops us while the terminal is not as it was.
        ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        ours.special_codes[SpecialCodeIndex::VMIN] = 1;
        ours.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &ours)?;
        let screen = Screen { before, end, resized };
        let mut out = io::stdout().lock();
        // Another screen, no cursor.
        out.write_all(b"\x1b[?1049h\x1b[?25l")?;
        out.flush()?;
        Ok(screen)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// Shows lines, cut to the window. Every line is printable already.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        let (columns, rows) = self.size();
        let mut picture = String::from("\x1b[H");
        for (at, line) in lines.iter().take(rows).enumerate() {
            picture += if at > 0 { "\r\n" } else { "" };
            picture.extend(line.chars().take(columns));
            picture += "\x1b[K";
        }
        picture += "\x1b[J";
        let mut out = io::stdout().lock();
        out.write_all(picture.as_bytes())?;
        out.flush()
    }

    /// Waits for a key until `deadline`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn input(&self, deadline: Instant) -> io::Result<Input> {
        loop {
            if self.end.load(Ordering::Relaxed) {
                return Ok(Input::End);
            }
            if self.resized.swap(false, Ordering::Relaxed) {
                return Ok(Input::Resized);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Input::Timeout);
            }
            // A signal that comes just before the sleep is seen soon all the same.
            let left = left.min(Duration::from_millis(250));
            let stdin = io::stdin();
            let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
            if fusewire_device::sleep(&mut fds, Some(left))? == 0 {
                continue;
            }
            // Not through the buffer of standard input: `poll` would not see the keys that wait there.
            let mut key = [0];
            return match rustix::io::read(&stdin, &mut key) {
                Ok(1) => Ok(Input::Key(key[0])),
                Err(rustix::io::Errno::INTR) => continue,
                _ => Ok(Input::End),
            };
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to be told when that fails.
        let mut out = io::stdout().lock();
        let _ = out.write_all(b"\x1b[?25h\x1b[?1049l").and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
