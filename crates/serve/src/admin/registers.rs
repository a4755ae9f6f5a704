//! Registers at an admin port: shown, and set by whoever has the token.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::registers::{Register, Registers, SetError, Shown};
use serde::Serialize;
use std::sync::Arc;

/// Something whose registers a port shows and sets.
pub trait Tuned: Send + Sync + 'static {
    /// Its list of registers.
    type Id: Register;

    /// Their values.
    fn registers(&self) -> &Registers<Self::Id>;

    /// One was set.
    fn register_changed(&self, _name: &str) {}
}

/// [`Shown`] for programs.
#[derive(Serialize)]
#[serde(remote = "Shown")]
struct ShownAs {
    name: &'static str,
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

/// A register as JSON.
#[derive(Serialize)]
pub struct Row(#[serde(with = "ShownAs")] pub Shown);

/// Registers as JSON.
pub fn rows(shown: Vec<Shown>) -> Vec<Row> {
    shown.into_iter().map(Row).collect()
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
        self.registers().set_live(name, text)?;
        self.register_changed(name);
        self.registers().show_one(name)
    }
}

/// The lists of a server.
#[derive(Clone, Default)]
pub(super) struct Lists(pub Vec<Arc<dyn Listed>>);

impl Lists {
    pub fn show(&self) -> Vec<Shown> {
        self.0.iter().flat_map(|list| list.show()).collect()
    }

    pub fn show_one(&self, name: &str) -> Result<Row, Refused> {
        self.first(name, |list| list.show_one(name))
    }

    pub fn set_live(&self, name: &str, text: &str) -> Result<Row, Refused> {
        self.first(name, |list| list.set_live(name, text))
    }

    /// What the list says that has the name; else what one says that has a name like it.
    fn first(
        &self,
        name: &str,
        ask: impl Fn(&dyn Listed) -> Result<Shown, SetError>,
    ) -> Result<Row, Refused> {
        let mut unknown =
            SetError::Unknown { name: name.to_owned(), near: None, listed: "this server has no registers" };
        for list in &self.0 {
            match ask(&**list) {
                Err(error @ SetError::Unknown { .. }) => {
                    if !matches!(unknown, SetError::Unknown { near: Some(_), .. }) {
                        unknown = error;
                    }
                }
                told => return told.map(Row).map_err(Refused),
            }
        }
        Err(Refused(unknown))
    }
}

/// A refused register as an HTTP answer.
pub(super) struct Refused(pub SetError);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.0 {
            SetError::Unknown { .. } => StatusCode::NOT_FOUND,
            SetError::NotAValue(..) | SetError::OutOfRange(..) => StatusCode::BAD_REQUEST,
            SetError::NotLive(..) => StatusCode::CONFLICT,
        };
        (status, format!("{}\n", self.0)).into_response()
    }
}
