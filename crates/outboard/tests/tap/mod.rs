//! An outboard at 10.9.0.2 in a thread of the test's, over a TAP whose other end is the kernel, at 10.9.0.1.

use std::path::{Path, PathBuf};

use fusewire_outboard::server::{Budget, Processors, Server, Settings};
use fusewire_stack::{ip, on_interface};
use fusewire_testkit::namespace::sh;

/// How it runs.
#[derive(Default)]
pub struct Setup {
    pub budget: Budget,
    pub processors: Processors,
}

impl From<Budget> for Setup {
    fn from(budget: Budget) -> Setup {
        Setup { budget, ..Setup::default() }
    }
}

/// What `f` gives, run with such an outboard; it is told where its socket lies.
pub fn with_outboard<T>(setup: impl Into<Setup>, f: impl FnOnce(&Path) -> T) -> T {
    let Setup { budget, processors } = setup.into();
    let path: PathBuf = std::env::temp_dir().join(format!("fw-tap-{}.sock", std::process::id()));
    let settings = on_interface::Settings {
        name: "tap:fw0".parse().unwrap(),
        own: vec![on_interface::Own { address: "10.9.0.2/24".parse().unwrap(), gateway: None }],
        carrier: on_interface::Carrier::Udp,
    };
    let (stack, clock) = on_interface::stack(&settings, ip::Config::default()).unwrap();
    sh("ip addr add 10.9.0.1/24 dev fw0");
    let settings = Settings { budget, ..Settings::at(&path) };
    let mut server = Server::new(stack, clock, settings).unwrap();
    server.stay_on(processors).unwrap();
    let stop = server.stop();
    std::thread::scope(|scope| {
        scope.spawn(|| server.run().unwrap());
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&path)));
        stop.stop();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
