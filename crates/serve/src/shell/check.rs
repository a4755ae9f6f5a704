//! Services that are looked at and not served: `millrace up --check`.

use super::{Served, Shell, ShellError};
use crate::rights::{Access, RightsFile};

impl Shell {
    /// Whether they could be served as far as who may come in goes: reads the file of rights, users and certificates as the start does, and takes nothing.
    ///
    /// # Errors
    /// What the start would say of these files.
    pub fn check(
        services: impl IntoIterator<Item = Served>,
        access: impl Into<Access>,
    ) -> Result<(), ShellError> {
        let mut services: Vec<Served> = services.into_iter().collect();
        let names = services.iter().filter_map(|one| one.name.clone());
        let plan = access.into().rights;
        let rights =
            plan.map(|plan| RightsFile::open(plan, names)).transpose().map_err(ShellError::Rights)?;
        for Served { name, service, .. } in &mut services {
            let own = rights.as_ref().map(|rights| rights.of(name.as_deref()));
            let guarded = own.map_or(Ok(()), |own| service.guard(own));
            let checked = guarded.and_then(|()| service.check());
            checked.map_err(|failure| ShellError::Service(name.clone(), failure))?;
        }
        Ok(())
    }
}
