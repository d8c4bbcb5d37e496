//! What a call needs of an end: the two roles send and get the same.

use std::time::Duration;

use conference_example::{A, Audio, B, Frame, Result, ToA, ToB, Told};
use fusewire_service::datagram::Counters;

/// What was heard.
pub enum Heard {
    /// Sound behind so many samples, of so many bytes.
    Audio(u32, usize),
    /// A picture of that time, of so many bytes, so long behind the fastest.
    Video(u32, usize, Duration),
    Told(Told),
}

pub trait Talks {
    fn audio(&mut self, audio: &Audio<'_>) -> Result<u64>;
    fn video(&mut self, frame: &Frame<'_>) -> Result<u64>;
    fn hear(&mut self, timeout: Duration) -> Result<Option<Heard>>;
    /// The delay that the path adds.
    fn queue(&mut self) -> Duration;
    fn counters(&mut self) -> Counters;
}

macro_rules! talks {
    ($end:ident, $to:ident) => {
        impl Talks for $end {
            fn audio(&mut self, audio: &Audio<'_>) -> Result<u64> {
                self.send_audio(audio)
            }

            fn video(&mut self, frame: &Frame<'_>) -> Result<u64> {
                self.send_video(frame)
            }

            fn hear(&mut self, timeout: Duration) -> Result<Option<Heard>> {
                Ok(self.recv(timeout)?.map(|heard| match heard {
                    $to::Audio(audio, _) => Heard::Audio(audio.samples, audio.sound.len()),
                    $to::Video(frame, came) => {
                        Heard::Video(frame.time, frame.picture.len(), came.behind)
                    }
                    $to::Told(told) => Heard::Told(told),
                }))
            }

            fn queue(&mut self) -> Duration {
                self.session().seen().queue
            }

            fn counters(&mut self) -> Counters {
                self.session().counters()
            }
        }
    };
}

talks!(A, ToA);
talks!(B, ToB);
