//! Mistakes that can be made on purpose, one at a time, to see that tests and simulations find them.
//!
//! A machine that can make them has a type parameter: [`NoBugs`] in production, where every look is `false` at compile time and nothing of
//! the mistake is left in the program; `Option<Planted>` in tests and simulations, where a value chooses.

/// Which mistake a machine makes.
pub trait Bugs<P>: Clone + Default + std::fmt::Debug {
    /// Whether it is this one.
    fn has(&self, planted: P) -> bool;
}

/// None: production.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoBugs;

impl<P> Bugs<P> for NoBugs {
    #[inline(always)]
    fn has(&self, _planted: P) -> bool {
        false
    }
}

impl<P: Copy + PartialEq + std::fmt::Debug> Bugs<P> for Option<P> {
    fn has(&self, planted: P) -> bool {
        *self == Some(planted)
    }
}

/// An enumeration of mistakes with their names on the command line.
macro_rules! planted {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Planted { $($(#[$doc])* $name,)* }

        impl Planted {
            /// All of them.
            pub const ALL: &[Planted] = &[$(Planted::$name,)*];

            /// As the command line calls it.
            pub const fn name(self) -> &'static str {
                match self { $(Planted::$name => $text,)* }
            }

            /// By its name.
            pub fn from_name(name: &str) -> Option<Planted> {
                Planted::ALL.iter().copied().find(|planted| planted.name() == name)
            }
        }
    };
}
pub(crate) use planted;
