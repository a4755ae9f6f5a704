//! The HTTP server: a thread that does the sockets of one edge.
//!
//! When it ends it takes no further connections, answers what is under way, and closes what is idle; what takes longer than [`PATIENCE`] is cut off.

use axum::Router;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long connections may take to finish at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the head of the file.
pub struct Port {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Binds `address` and serves these routes from a new thread.
    ///
    /// # Errors
    /// The system's, for example when the address is taken.
    pub fn start(address: SocketAddr, routes: Router) -> io::Result<Port> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || runtime.block_on(serve(listener, routes, stopped));
        let thread = std::thread::Builder::new().name("rec-http".into()).spawn(serve)?;
        Ok(Port { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, routes: Router, stopped: oneshot::Receiver<()>) {
    use axum::serve::ListenerExt;
    let listener = tokio::net::TcpListener::from_std(listener).expect("a nonblocking listener");
    // Answers are written whole; waiting for more of them would be waiting for the client.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let (tell, told) = oneshot::channel::<()>();
    let served = axum::serve(listener, routes).with_graceful_shutdown(async {
        // A dropped sender stops it just as well; its own receiver is there until it ends.
        let _ = stopped.await;
        let _ = tell.send(());
    });
    let cut_off = async {
        let _ = told.await;
        tokio::time::sleep(PATIENCE).await;
    };
    tokio::select! {
        served = served => served.expect("axum's accept loop does not fail"),
        () = cut_off => (),
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}
