//! Registers at an admin port: shown, and set by whoever has the token.

use super::Owner;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::registers::{Register, Registers, SetError, Shown};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Something whose registers a port shows and sets.
pub trait Tuned: Send + Sync + 'static {
    /// Its list of registers.
    type Id: Register;

    /// Their values.
    fn registers(&self) -> &Registers<Self::Id>;

    /// Why one is not to be set to this, if it has no use for it.
    fn refuses(&self, _name: &str, _text: &str) -> Option<String> {
        None
    }

    /// One was set.
    fn register_changed(&self, _name: &str) {}
}

/// A register as JSON.
#[derive(Serialize)]
pub struct Row {
    name: String,
    value: String,
    number: u64,
    unit: &'static str,
    range: [u64; 2],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    choices: &'static [&'static str],
    default: String,
    live: bool,
    help: &'static str,
}

impl Row {
    fn of(owner: Option<&str>, shown: Shown) -> Row {
        let Shown { name, value, number, unit, range, choices, default, live, help } = shown;
        Row { name: full_name(owner, name), value, number, unit, range, choices, default, live, help }
    }
}

impl fmt::Display for Row {
    /// Its name and its value, in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)?;
        if self.value == self.default { Ok(()) } else { write!(f, "   (default {})", self.default) }
    }
}

/// `store.memory`, or `cache.store.memory` of service `cache`.
fn full_name(owner: Option<&str>, name: &str) -> String {
    owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}.{name}"))
}

/// Registers as JSON, of a service if it has a name.
pub fn rows(owner: Option<&str>, shown: Vec<Shown>) -> Vec<Row> {
    shown.into_iter().map(|shown| Row::of(owner, shown)).collect()
}

/// [`Tuned`], whatever its list.
pub(super) trait Listed: Send + Sync {
    fn show(&self) -> Vec<Shown>;
    fn show_one(&self, name: &str) -> Result<Shown, SetError>;
    fn set_live(&self, name: &str, text: &str) -> Result<Shown, SetError>;
}

impl<T: Tuned> Listed for T {
    fn show(&self) -> Vec<Shown> {
        self.registers().show()
    }

    fn show_one(&self, name: &str) -> Result<Shown, SetError> {
        self.registers().show_one(name)
    }

    fn set_live(&self, name: &str, text: &str) -> Result<Shown, SetError> {
        if let Some(why) = self.refuses(name, text) {
            return Err(SetError::Refused(Registers::<T::Id>::spec(name)?, why));
        }
        self.registers().set_live(name, text)?;
        self.register_changed(name);
        self.registers().show_one(name)
    }
}

/// The lists of a server, each with the service that it is of.
#[derive(Clone, Default)]
pub(super) struct Lists(pub Vec<(Owner, Arc<dyn Listed>)>);

impl Lists {
    pub fn show(&self) -> Vec<Row> {
        self.0.iter().flat_map(|(owner, list)| rows(owner.as_deref(), list.show())).collect()
    }

    pub fn show_one(&self, name: &str) -> Result<Row, Refused> {
        self.first(name, |list, name| list.show_one(name))
    }

    pub fn set_live(&self, name: &str, text: &str) -> Result<Row, Refused> {
        self.first(name, |list, name| list.set_live(name, text))
    }

    /// What the list says that has the name; else what one says that has a name like it.
    fn first(
        &self,
        name: &str,
        ask: impl Fn(&dyn Listed, &str) -> Result<Shown, SetError>,
    ) -> Result<Row, Refused> {
        let listed = match &self.0[..] {
            [(Some(_), _), ..] => "its name begins with its service's, as in cache.store.memory",
            _ => "this server has no registers",
        };
        let unknown = SetError::Unknown { name: name.to_owned(), near: None, listed };
        let mut refused = Refused(None, unknown);
        for (owner, list) in &self.0 {
            let own = match owner {
                Some(owner) => name.strip_prefix(&**owner).and_then(|rest| rest.strip_prefix('.')),
                None => Some(name),
            };
            let Some(own) = own else { continue };
            match ask(&**list, own) {
                Err(error @ SetError::Unknown { .. }) => {
                    if !matches!(refused.1, SetError::Unknown { near: Some(_), .. }) {
                        refused = Refused(owner.clone(), error);
                    }
                }
                told => {
                    return told
                        .map(|shown| Row::of(owner.as_deref(), shown))
                        .map_err(|error| Refused(owner.clone(), error));
                }
            }
        }
        Err(refused)
    }
}

/// A refused register, with the service that it is of, as an HTTP answer.
pub(super) struct Refused(Owner, SetError);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.1 {
            SetError::Unknown { .. } => StatusCode::NOT_FOUND,
            SetError::NotAValue(..) | SetError::OutOfRange(..) => StatusCode::BAD_REQUEST,
            SetError::NotLive(..) | SetError::Refused(..) => StatusCode::CONFLICT,
        };
        let of = self.0.map_or(String::new(), |owner| format!("service {owner}: "));
        (status, format!("{of}{}\n", self.1)).into_response()
    }
}
