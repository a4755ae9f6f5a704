//! Users and their passwords, from a file: who may log in where clients have no certificates.
//!
//! ```text
//!   user:password        one a line, as memcached's -Y has them
//!   user:password:more   the same of a file that MEMCACHED_SASL_PWDB names: what follows a second colon is not looked at
//!   name:token           of who has a token instead of a name and a password: no two are alike, and none is short
//! ```
//! Passwords are not kept: a line becomes the tags of its user and password, and of the password alone, under a key that is drawn when the file is read.
//!
//! Invariant: every tag is looked at in every comparison, so the time says neither whether there is such a user nor how much of a password was right.
//!
//! Bounds: files of at most [`FILE_BYTES_MAX`] bytes with [`USERS_MAX`] users.

use crate::key::{Key, Tag};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Longest file that is read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most users of a file.
pub const USERS_MAX: usize = 4096;

/// Bytes of a token at least: shorter ones can be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;

/// Where a password ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// At the end of its line.
    Line,
    /// At a colon, too.
    Colon,
    /// At the end of its line; it is a token, which says alone who has it.
    Token,
}

/// Who may log in.
#[derive(Debug)]
pub struct Users {
    key: Key,
    tags: Vec<Tag>,
    /// Of tokens alone, with the names of who has them.
    tokens: Vec<(Tag, Box<[u8]>)>,
}

impl Users {
    /// Those that `text` lists.
    ///
    /// # Errors
    /// The first line that lists none, or how many are too many.
    pub fn parse(text: &[u8], form: Form) -> Result<Users, Malformed> {
        let mut users = Users { key: Key::generate(), tags: Vec::new(), tokens: Vec::new() };
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let colon = line.iter().position(|&byte| byte == b':').ok_or(Malformed::Line(at + 1))?;
            let (user, password) = (&line[..colon], &line[colon + 1..]);
            let end = match form {
                Form::Line | Form::Token => None,
                Form::Colon => password.iter().position(|&byte| byte == b':'),
            };
            let password = &password[..end.unwrap_or(password.len())];
            if user.is_empty() || password.is_empty() {
                return Err(Malformed::Line(at + 1));
            }
            if users.count() == USERS_MAX {
                return Err(Malformed::TooMany);
            }
            if form == Form::Token {
                users.add_token(user, password).map_err(|why| why(at + 1))?;
                continue;
            }
            users.tags.push(users.key.tag(&[user, password]));
        }
        if users.count() == 0 { Err(Malformed::Nobody) } else { Ok(users) }
    }

    /// Whether this is the password of a user.
    pub fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let tag = self.key.tag(&[user, password]);
        // All of them, whichever it is.
        self.tags.iter().fold(false, |is_in, known| is_in | (*known == tag))
    }

    fn add_token(&mut self, name: &[u8], token: &[u8]) -> Result<(), fn(usize) -> Malformed> {
        if token.len() < TOKEN_BYTES_MIN {
            return Err(Malformed::ShortToken);
        }
        let tag = self.key.tag(&[token]);
        if self.tokens.iter().any(|(known, other)| *known == tag || **other == *name) {
            return Err(Malformed::Twice);
        }
        self.tokens.push((tag, name.into()));
        Ok(())
    }

    /// Who has this token.
    pub fn owner_of(&self, token: &[u8]) -> Option<&[u8]> {
        let tag = self.key.tag(&[token]);
        // All of them, whichever it is.
        self.tokens
            .iter()
            .fold(None, |found, (known, name)| if *known == tag { Some(&**name) } else { found })
    }

    /// Whether there is a token of this name.
    pub fn has_token_of(&self, name: &[u8]) -> bool {
        self.tokens.iter().any(|(_, known)| **known == *name)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.tags.len() + self.tokens.len()
    }
}

/// What is wrong with a text that should list users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The line with this number is not `user:password`.
    Line(usize),
    /// There are more than [`USERS_MAX`].
    TooMany,
    /// It lists nobody.
    Nobody,
    /// The token of the line with this number has less than [`TOKEN_BYTES_MIN`] bytes.
    ShortToken(usize),
    /// The line with this number has a name or a token of a line before it.
    Twice(usize),
}

/// A file of users, which may be read again.
#[derive(Debug)]
pub struct UserFile {
    path: PathBuf,
    form: Form,
    users: RwLock<Users>,
}

impl UserFile {
    /// Reads it.
    ///
    /// # Errors
    /// It cannot be read, or does not list users.
    pub fn open(path: &Path, form: Form) -> Result<UserFile, UsersError> {
        let users = RwLock::new(read(path, form)?);
        Ok(UserFile { path: path.to_owned(), form, users })
    }

    /// Reads it again; how many users there are now. Who has logged in stays so.
    ///
    /// # Errors
    /// As [`UserFile::open`]; those that were known stay so.
    pub fn reload(&self) -> Result<usize, UsersError> {
        let users = read(&self.path, self.form)?;
        let count = users.count();
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users;
        Ok(count)
    }

    /// Whether this is the password of a user.
    pub fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        self.users.read().unwrap_or_else(PoisonError::into_inner).admits(user, password)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its mode, if others than its owner may read it.
    pub fn is_open_to_others(&self) -> Option<u32> {
        is_open_to_others(&self.path)
    }
}

/// The mode of a file, if others than its owner may read it.
pub fn is_open_to_others(path: &Path) -> Option<u32> {
    let mode = std::fs::metadata(path).ok()?.mode() & 0o777;
    (mode & 0o044 != 0).then_some(mode)
}

/// Reads a file of users.
///
/// # Errors
/// It cannot be read, or does not list users.
pub fn read(path: &Path, form: Form) -> Result<Users, UsersError> {
    let failed = |cause| UsersError::Io(path.to_owned(), cause);
    let file = File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(UsersError::TooLong(path.to_owned()));
    }
    Users::parse(&text, form).map_err(|why| UsersError::Malformed(path.to_owned(), why))
}

/// Why there are no users.
#[derive(Debug)]
pub enum UsersError {
    /// The file cannot be read.
    Io(PathBuf, io::Error),
    /// It is longer than [`FILE_BYTES_MAX`].
    TooLong(PathBuf),
    /// It does not list users.
    Malformed(PathBuf, Malformed),
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsersError::Io(path, cause) => write!(f, "users in {}: {cause}", path.display()),
            UsersError::TooLong(path) => {
                write!(
                    f,
                    "users in {}: more than {FILE_BYTES_MAX} bytes are no list of users",
                    path.display()
                )
            }
            UsersError::Malformed(path, Malformed::Line(line)) => {
                write!(f, "users in {}: line {line} is not user:password", path.display())
            }
            UsersError::Malformed(path, Malformed::TooMany) => {
                write!(f, "users in {}: more than {USERS_MAX}", path.display())
            }
            UsersError::Malformed(path, Malformed::Nobody) => {
                write!(f, "users in {}: nobody; write a line user:password for each", path.display())
            }
            UsersError::Malformed(path, Malformed::ShortToken(line)) => {
                let path = path.display();
                write!(
                    f,
                    "{path}:{line}: a token of less than {TOKEN_BYTES_MIN} bytes can be guessed: openssl rand -hex 32 makes one"
                )
            }
            UsersError::Malformed(path, Malformed::Twice(line)) => {
                write!(f, "{}:{line}: its name or its token is that of a line before it", path.display())
            }
        }
    }
}

impl std::error::Error for UsersError {}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn of(text: &str, form: Form) -> Result<Users, Malformed> {
        Users::parse(text.as_bytes(), form)
    }

    #[test]
    fn users_have_their_own_passwords_and_no_others() {
        let users = of("ann:one\r\nbob:two:three\n\ncarl:last", Form::Line).expect("a good text");
        assert_eq!(users.count(), 3);
        for (user, password, is_in) in [
            ("ann", "one", true),
            ("bob", "two:three", true),
            ("carl", "last", true),
            ("bob", "two", false),
            ("ann", "two:three", false),
            ("ann", "on", false),
            ("ann", "onee", false),
            ("an", "none", false),
            ("", "", false),
            ("ann", "", false),
        ] {
            assert_eq!(users.admits(user.as_bytes(), password.as_bytes()), is_in, "{user} {password}");
        }
        let users = of("bob:two:three\n", Form::Colon).expect("a good text");
        assert!(users.admits(b"bob", b"two") && !users.admits(b"bob", b"two:three"));
    }

    #[test]
    fn what_lists_no_users_is_named() {
        for (text, why) in [
            ("", Malformed::Nobody),
            ("\n\r\n", Malformed::Nobody),
            ("ann:one\nbob", Malformed::Line(2)),
            (":one", Malformed::Line(1)),
            ("ann:", Malformed::Line(1)),
        ] {
            assert_eq!(of(text, Form::Line).expect_err(text), why);
        }
        assert_eq!(of("ann::more", Form::Colon).expect_err("no password"), Malformed::Line(1));
        let many = "user:password\n".repeat(USERS_MAX);
        assert_eq!(of(&many, Form::Line).expect("as many as may be").count(), USERS_MAX);
        assert_eq!(of(&(many + "a:b"), Form::Line).expect_err("one more"), Malformed::TooMany);
    }

    #[test]
    fn a_token_says_who_has_it() {
        let users = of("ci:0123456789abcdef\ncd:fedcba:9876543210\n", Form::Token).expect("tokens");
        assert_eq!((users.count(), users.has_token_of(b"ci"), users.has_token_of(b"c")), (2, true, false));
        assert_eq!(users.owner_of(b"0123456789abcdef"), Some(&b"ci"[..]));
        assert_eq!(users.owner_of(b"fedcba:9876543210"), Some(&b"cd"[..]));
        assert_eq!((users.owner_of(b""), users.owner_of(b"0123456789abcde")), (None, None));
        assert!(!users.admits(b"ci", b"0123456789abcdef"), "a token is no password");
        for (text, why) in [
            ("ci:0123456789abcde", Malformed::ShortToken(1)),
            ("ci:0123456789abcdef\ncd:0123456789abcdef", Malformed::Twice(2)),
            ("ci:0123456789abcdef\n\nci:fedcba9876543210", Malformed::Twice(3)),
            ("ci", Malformed::Line(1)),
        ] {
            assert_eq!(of(text, Form::Token).expect_err(text), why);
        }
    }

    #[test]
    fn a_file_that_is_broken_leaves_the_users_that_were_known() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("users");
        std::fs::write(&path, "ann:one\n").expect("a folder");
        let file = UserFile::open(&path, Form::Line).expect("a good file");
        std::fs::write(&path, "nonsense").expect("a folder");
        let error = file.reload().expect_err("nonsense").to_string();
        assert!(error.contains("line 1 is not user:password"), "{error}");
        assert!(file.admits(b"ann", b"one"));
        std::fs::write(&path, "ann:two\nbob:one\n").expect("a folder");
        assert_eq!(file.reload().expect("a good file"), 2);
        assert!(!file.admits(b"ann", b"one") && file.admits(b"ann", b"two") && file.admits(b"bob", b"one"));
        std::fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize + 1]).expect("a folder");
        assert!(file.reload().expect_err("too long").to_string().contains("no list of users"));
        std::fs::remove_file(&path).expect("it is ours");
        assert!(matches!(file.reload(), Err(UsersError::Io(..))));
        assert!(!format!("{file:?}").contains("two"), "passwords are not kept");
    }
}
