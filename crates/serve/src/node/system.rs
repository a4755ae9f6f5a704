//! What a process of servers asks of the system besides: a file with its number, another user.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file with our process id; gone when we are.
pub struct Pidfile(PathBuf);

impl Pidfile {
    /// Writes it beside its place and moves it there: what was there is replaced, and if that was a link, the link and not the file it leads to.
    pub fn write(path: &Path) -> Result<Pidfile, String> {
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let write = || {
            let mut file = std::fs::File::create_new(&fresh)?;
            writeln!(file, "{}", std::process::id())?;
            std::fs::rename(&fresh, path)
        };
        write().map_err(|e| {
            // Nobody else has this name.
            let _ = std::fs::remove_file(&fresh);
            format!("cannot write the pid file {}: {e}", path.display())
        })?;
        Ok(Pidfile(path.to_path_buf()))
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // Somebody may have removed it already, or replaced it by their own.
        if std::fs::read_to_string(&self.0).is_ok_and(|id| id.trim() == std::process::id().to_string()) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Becomes `user` for good. Called before any other thread exists.
pub fn become_user(user: &str) -> Result<(), String> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry =
        passwd.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|fields| fields.first() == Some(&user));
    let number = |text: Option<&&str>| text.and_then(|t| t.parse::<u32>().ok());
    let (uid, gid) = match (&entry, user.parse::<u32>()) {
        (Some(fields), _) => (number(fields.get(2)), number(fields.get(3))),
        (None, Ok(id)) => (Some(id), Some(id)),
        (None, Err(_)) => (None, None),
    };
    let (Some(uid), Some(gid)) = (uid, gid) else {
        return Err(format!("there is no user {user:?}; see /etc/passwd, or give a number"));
    };
    if rustix::process::getuid().as_raw() != 0 {
        return Err("only root can become another user; leave -u out".to_string());
    }
    let (uid, gid) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(gid));
    rustix::thread::set_thread_groups(&[])
        .and_then(|()| rustix::thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| rustix::thread::set_thread_res_uid(uid, uid, uid))
        .map_err(|e| format!("cannot become {user}: {e}"))
}

/// Raises the limit of core files to what this process may raise it to.
pub fn allow_core_files() -> Result<(), String> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Core);
    limit.current = limit.maximum;
    setrlimit(Resource::Core, limit).map_err(|e| format!("cannot raise the limit of core files (-r): {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_pid_file_replaces_a_link_and_not_what_it_leads_to() {
        let place = TempDir::with_prefix("millrace-").expect("a folder");
        let (precious, path) = (place.path().join("precious"), place.path().join("pid"));
        std::fs::write(&precious, "kept").expect("a file");
        std::os::unix::fs::symlink(&precious, &path).expect("a link");
        let pidfile = Pidfile::write(&path).expect("it is written");
        let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
        assert_eq!((read(&precious), read(&path)), ("kept".into(), format!("{}\n", std::process::id())));
        drop(pidfile);
        assert!(!path.exists() && precious.exists());
    }
}
