//! Nothing is left of an endpoint: alone in its process, because it counts the process's threads and descriptors.

mod support;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use fusewire_session::ServerConfig;
use fusewire_stack::Config;
use support::{endpoint, identity, pair};

fn count(what: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}

/// Threads and descriptors, once they are no more than before: a thread that was waited for is listed a moment longer.
#[track_caller]
fn ends_as(before: (usize, usize), what: &str) {
    let begun = Instant::now();
    loop {
        let now = (count("task"), count("fd"));
        if now.0 <= before.0 && now.1 <= before.1 {
            return;
        }
        let left = begun.elapsed() < Duration::from_secs(20);
        assert!(left, "{now:?} threads and descriptors after {what}, {before:?} before");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn everything_ends_with_the_last_handle() {
    let key = identity();
    let before = (count("task"), count("fd"));
    for _ in 0..10 {
        let endpoint = endpoint(Config::default());
        let listener = endpoint.listen(ServerConfig::new(key.clone())).unwrap();
        let mut accepted = pin!(listener.accept_async());
        assert!(accepted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    ends_as(before, "listeners");
    for _ in 0..3 {
        let pair = pair(&Config::default());
        let (client, server) = pair.connect();
        client.send(b"to be or").unwrap();
        assert_eq!(server.recv_adu().unwrap().unwrap(), b"to be or");
        drop((pair.client, pair.listener, pair.server));
        // A connection holds what it needs.
        server.send(b"not to be").unwrap();
        assert_eq!(client.recv_adu().unwrap().unwrap(), b"not to be");
        drop((client, server));
        ends_as(before, "connections");
    }
    // A task that ends by its own wake drops the last handle in the driver's thread.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let running = (count("task"), count("fd"));
    for _ in 0..5 {
        let pair = pair(&Config::default());
        let address = pair.server.local_addr();
        let config = pair.config();
        let (server, listener) = (pair.server, pair.listener);
        let served = runtime.spawn(async move {
            let connection = listener.accept_async().await.unwrap();
            drop((server, listener));
            while let Ok(Some(adu)) = connection.recv_async().await {
                connection.send_async(&adu).await.unwrap();
            }
        });
        let client = pair.client;
        runtime.block_on(async move {
            let connection = client.connect_async(address, &config).await.unwrap();
            connection.send_async(b"ping").await.unwrap();
            assert_eq!(connection.recv_async().await.unwrap().unwrap(), b"ping");
            connection.finish_sending();
            served.await.unwrap();
        });
    }
    ends_as(running, "tasks");
}
