//! The parts of generated code that are the same for every message and enum.

/// Takes up the accessors of the .proto files that `build::Config` compiled: `include_proto!("photo")`
/// where the first of them is of package `photo`.
#[macro_export]
macro_rules! include_proto {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}

/// For generated code: what a message has besides its fields.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_message {
    ($name:ident, $view:ident, $edit:ident, class $class:literal, size $size:literal, $types:path) => {
        // SAFETY: the generator wrote the constants and the accessors from the table.
        unsafe impl $crate::typed::Message for $name {
            const CLASS: u32 = $class;
            const SIZE: u32 = $size;
            type View<'a> = $view<'a>;
            type Mut<'m, 'a> = $edit<'m, 'a>;

            fn types() -> &'static $crate::schema::Types {
                $types()
            }

            #[inline]
            unsafe fn view(view: $crate::object::View<'_>) -> $view<'_> {
                $view(view)
            }

            #[inline]
            unsafe fn edit<'m, 'a>(edit: $crate::object::Edit<'m, 'a>) -> $edit<'m, 'a> {
                $edit(edit)
            }

            #[inline]
            fn freeze<'m>(message: Self::Mut<'m, '_>) -> Self::View<'m> {
                message.freeze()
            }
        }

        impl<'a> $crate::typed::MessageView<'a> for $view<'a> {
            type Of = $name;

            #[inline]
            fn raw(self) -> $crate::object::View<'a> {
                self.0
            }
        }

        impl<'a> $crate::typed::MessageEdit<'a> for $edit<'_, 'a> {
            type Of = $name;

            #[inline]
            fn raw_edit(&mut self) -> $crate::object::Edit<'_, 'a> {
                self.0.borrow()
            }
        }

        impl ::core::fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&$crate::typed::MessageView::dynamic(*self), f)
            }
        }

        impl<'m, 'a> $edit<'m, 'a> {
            /// Reads it as it is now.
            #[inline]
            pub fn as_view(&self) -> $view<'_> {
                $view(self.0.view())
            }

            /// No more changes.
            #[inline]
            pub fn freeze(self) -> $view<'m> {
                $view(self.0.freeze())
            }

            /// The same, for a while.
            #[inline]
            pub fn borrow(&mut self) -> $edit<'_, 'a> {
                $edit(self.0.borrow())
            }
        }

        impl ::core::fmt::Debug for $edit<'_, '_> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.as_view(), f)
            }
        }
    };
}

/// For generated code: what an enum has besides its constants.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_enum {
    ($name:ident, first $first:literal, $($value:literal => $text:literal),* $(,)?) => {
        impl $name {
            /// The name in the .proto file, if the value has one.
            pub fn name(self) -> ::core::option::Option<&'static str> {
                match self.0 {
                    $($value => ::core::option::Option::Some($text),)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        impl ::core::default::Default for $name {
            /// The first value of the enum.
            fn default() -> $name {
                $name($first)
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self.name() {
                    ::core::option::Option::Some(name) => f.write_str(name),
                    ::core::option::Option::None => ::core::write!(f, "{}", self.0),
                }
            }
        }

        // SAFETY: a transparent i32; any bits are one.
        unsafe impl $crate::object::Value for $name {}

        // SAFETY: an enum lies there as an i32.
        unsafe impl $crate::typed::Item for $name {
            type Raw = $name;
            type Out<'a> = $name;

            #[inline]
            unsafe fn read<'a>(raw: $name) -> Self::Out<'a> {
                raw
            }

            #[inline]
            fn absent<'a>() -> Self::Out<'a> {
                ::core::default::Default::default()
            }
        }

        impl $crate::typed::Plain for $name {
            type In<'v> = $name;

            #[inline]
            unsafe fn set(
                edit: &mut $crate::object::Edit<'_, '_>,
                slot: $crate::object::Slot,
                value: Self::In<'_>,
            ) -> ::core::result::Result<(), $crate::memory::OutOfMemory> {
                // SAFETY: the caller's promise.
                unsafe { edit.set(slot, value) };
                ::core::result::Result::Ok(())
            }
        }
    };
}
