//! A process that may have little address space.

use codec::memory::{Arena, Memory};
use std::process::Command;

/// Makes this test the process that is limited.
const CHILD: &str = "MILLRACE_TEST_NARROW";

/// The first call panicked where the system refused 16 GiB.
#[test]
fn messages_have_less_memory_where_the_system_gives_less() {
    if std::env::var_os(CHILD).is_some() {
        let memory = Memory::prepare().expect("some of it can be had");
        let bytes = memory.occupancy().chunks as usize * 4096;
        assert!((64 << 20..2 << 30).contains(&bytes), "{bytes}");
        Arena::default().alloc(1 << 20).expect("there is room");
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let name = "messages_have_less_memory_where_the_system_gives_less";
    let mut child = Command::new("sh");
    child
        .args(["-c", "ulimit -v 2097152; exec \"$0\" --exact \"$1\""])
        .arg(program)
        .arg(name)
        .env(CHILD, "1");
    let output = child.output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
}
