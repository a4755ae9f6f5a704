//! iceoryx2: messages in shared memory between processes, no schema and no encoding; bytes are copied in and compared where they lie.
//!
//! Its best settings for this contest: both sides poll without a pause, as its own benchmarks do, on the service type
//! without locks (`ipc`); no history, no overwriting, one client and one server. Nothing of it is shared
//! with other programs of the machine: its files are in the run's folder and its shared memory begins with the run's name.

pub mod calls;
pub mod topics;

use iceoryx2::prelude::*;

use crate::systems::Folder;

/// A node with all its names below the run's own.
fn node(folder: &Folder) -> Result<Node<ipc::Service>, String> {
    set_log_level(LogLevel::Error);
    let mut config = Config::default();
    let path = folder.path().join("iceoryx2");
    let root = Path::new(path.as_os_str().as_encoded_bytes())
        .map_err(|error| format!("{} is no folder for it: {error:?}", path.display()))?;
    config.global.set_root_path(&root);
    config.global.prefix = FileName::new(folder.prefix().as_bytes())
        .map_err(|error| format!("{} is no prefix for it: {error:?}", folder.prefix()))?;
    NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()
        .map_err(failed("no node"))
}

fn name(name: &str) -> ServiceName {
    name.try_into().expect("a service may have this name")
}

/// Turns one of its errors into a sentence.
fn failed<E: std::fmt::Debug>(what: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error:?}")
}
