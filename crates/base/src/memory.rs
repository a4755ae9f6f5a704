//! How much memory there is, for the machine and for this process. A process that takes more is not told: it is killed.

use std::fs::read_to_string;
use std::path::Path;

/// Bytes of memory that the machine has; `None` where the system does not say.
pub fn total() -> Option<u64> {
    field(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Bytes that this process can take before something else has to give way: what the machine can spare, and no more than what the control groups that
/// it is in (version 2) have left. `None` where the system does not say.
pub fn available() -> Option<u64> {
    let machine = field(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(left(Path::new("/sys/fs/cgroup"), &groups).map_or(machine, |left| left.min(machine)))
}

/// The value of `name` in `/proc/meminfo`'s form, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the tightest of a process's groups has left. `groups` is its `/proc/self/cgroup`.
fn left(root: &Path, groups: &str) -> Option<u64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A path that leaves the root is of a group that this process does not see; of those the root is the nearest.
    let own = if group.split('/').any(|part| part == "..") { root.to_owned() } else { root.join(group) };
    // A group's bound holds for all below it.
    own.ancestors().take_while(|path| path.starts_with(root)).filter_map(of_group).min()
}

fn of_group(group: &Path) -> Option<u64> {
    let number = |file| read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let most: u64 = number("memory.max")?;
    let taken: u64 = number("memory.current")?;
    // Pages of files count as taken, and go when memory is wanted.
    let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = ["inactive_file ", "active_file "].into_iter().filter_map(|name| {
        stat.lines().find_map(|line| line.strip_prefix(name)).and_then(|bytes| bytes.parse::<u64>().ok())
    });
    Some(most.saturating_sub(taken.saturating_sub(files.sum())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_field_is_in_bytes() {
        let text = "MemTotal:       24576 kB\nMemFree:  1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(2 << 20));
        assert_eq!(field(text, "MemTotal:"), Some(24 << 20));
        assert_eq!(field(text, "SwapTotal:"), None);
        assert_eq!(field("MemTotal: many kB", "MemTotal:"), None);
        assert_eq!(field("MemTotal: 99999999999999999999 kB", "MemTotal:"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn the_tightest_group_counts_and_files_can_go() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let root = folder.path();
        let inner = root.join("pods/one");
        std::fs::create_dir_all(&inner).expect("a folder");
        let group = |path: &Path, max: &str, current: &str, stat: &str| {
            for (file, text) in [("memory.max", max), ("memory.current", current), ("memory.stat", stat)] {
                std::fs::write(path.join(file), text).expect("written");
            }
        };
        group(&inner, "1000\n", "600\n", "anon 400\nactive_file 50\ninactive_file 150\nfile 210\n");
        group(&root.join("pods"), "max\n", "5000\n", "");
        assert_eq!(left(root, "1:cpu:/x\n0::/pods/one\n"), Some(600));
        assert_eq!(left(root, "0::/pods\n"), None, "no bound is none");
        group(&root.join("pods"), "4900\n", "5000\n", "inactive_file 400");
        assert_eq!(left(root, "0::/pods/one\n"), Some(300), "a group above has less left");
        assert_eq!(left(root, "4:memory:/pods/one\n"), None, "version 1 is not read");
        group(root, "100", "30", "");
        assert_eq!(left(root, "0::/../one\n"), Some(70), "out of sight");
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "files")]
    fn what_is_available_is_not_more_than_there_is() {
        assert!(available().expect("Linux says it") <= total().expect("Linux says it"));
    }
}
