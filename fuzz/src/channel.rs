//! A channel whose ADUs the target holds in its hands, and folders for what is transferred.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewire_codec::pipeline::{Marshal, Unmarshal, marshal, unmarshal};
use fusewire_files::channel::MAX_ADU_LEN;
use fusewire_files::{Channel, ChannelError, Received, Sent};

/// ADUs on their way to one end.
#[derive(Default)]
pub struct OneWay {
    /// The ADUs, oldest first.
    pub adus: VecDeque<Vec<u8>>,
    /// No more will come.
    pub finished: bool,
}

/// One end of a channel.
pub struct Pipe {
    outward: Arc<Mutex<OneWay>>,
    inward: Arc<Mutex<OneWay>>,
    capacity: usize,
}

/// A channel that holds `capacity` ADUs each way.
pub fn pair(capacity: usize) -> [Pipe; 2] {
    let (a, b) = (Arc::default(), Arc::default());
    let pipe = |outward: &Arc<Mutex<OneWay>>, inward: &Arc<Mutex<OneWay>>| Pipe {
        outward: outward.clone(),
        inward: inward.clone(),
        capacity,
    };
    [pipe(&a, &b), pipe(&b, &a)]
}

fn lock(direction: &Mutex<OneWay>) -> MutexGuard<'_, OneWay> {
    direction.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    /// What this end has sent and the other has not taken.
    pub fn sent(&self) -> MutexGuard<'_, OneWay> {
        lock(&self.outward)
    }

    /// What waits for this end.
    pub fn waiting(&self) -> MutexGuard<'_, OneWay> {
        lock(&self.inward)
    }
}

impl Channel for Pipe {
    fn max_adu(&self) -> usize {
        1408
    }

    fn room(&mut self) -> usize {
        self.capacity.saturating_sub(self.sent().adus.len())
    }

    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        let mut adu = vec![0; message.marshalled_len()];
        assert!(adu.len() <= MAX_ADU_LEN, "an ADU of {} bytes", adu.len());
        if self.room() == 0 {
            return Ok(Sent::Full);
        }
        assert!(marshal(message, &mut adu), "a message is as long as it says");
        self.sent().adus.push_back(adu);
        Ok(Sent::Taken)
    }

    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        let mut direction = self.waiting();
        let Some(adu) = direction.adus.pop_front() else {
            return Ok(if direction.finished { Received::Finished } else { Received::Nothing });
        };
        unmarshal(&adu, into);
        Ok(Received::Adu { len: adu.len() })
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.sent().finished = true;
        Ok(())
    }
}

/// What no transfer may reach: it lies beside the folder that is transferred.
pub const SECRET: &[u8] = b"nobody may read or change this, 40 bytes";

/// A folder, `inside`, with a secret beside it; both go when this is dropped.
pub struct Place(PathBuf);

impl Place {
    /// A new one, with nothing inside.
    pub fn new() -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fusewire-fuzz-{}-{number}", std::process::id());
        let memory = Path::new("/dev/shm");
        let temp = std::env::temp_dir();
        let root = if memory.is_dir() { memory } else { &temp }.join(name);
        fs::create_dir_all(root.join("inside")).expect("a folder");
        fs::write(root.join("secret"), SECRET).expect("a file");
        Place(root)
    }

    /// The folder.
    pub fn inside(&self) -> PathBuf {
        self.0.join("inside")
    }

    /// Nothing but the folder and the secret is there, and the secret is as it was.
    pub fn check(&self) {
        let secret = fs::read(self.0.join("secret")).expect("the secret is there");
        assert_eq!(secret, SECRET, "changed from outside");
        assert_eq!(fs::read_dir(&self.0).expect("the folder").count(), 2, "something beside it");
    }
}

impl Default for Place {
    fn default() -> Self {
        Place::new()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        open_up(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A transfer may have closed folders to their owner.
fn open_up(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
