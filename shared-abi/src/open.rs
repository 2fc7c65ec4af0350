//! Enums that a newer peer may extend: a newtype with named constants, so that an unknown value
//! survives being read and written.

/// Defines an open enum: its constants, and a method that gives a text for each. The text behind
/// `or` is that of any other value.
macro_rules! open_enum {
    ($(#[$doc:meta])* $type:ident($word:ty), $(#[$tdoc:meta])* $text:ident or $unknown:literal {
        $($(#[$vdoc:meta])* $name:ident = $value:literal => $what:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $type(pub $word);
        impl $type {
            $($(#[$vdoc])* pub const $name: Self = Self($value);)*

            $(#[$tdoc])*
            pub const fn $text(self) -> &'static str {
                match self.0 {
                    $($value => $what,)*
                    _ => $unknown,
                }
            }
        }
    };
    // With a second method, for the names of the constants.
    ($(#[$doc:meta])* $type:ident($word:ty), $(#[$tdoc:meta])* $text:ident or $unknown:literal,
     $(#[$cdoc:meta])* $constant:ident {
        $($(#[$vdoc:meta])* $name:ident = $value:literal => $what:literal,)*
    }) => {
        open_enum! {
            $(#[$doc])* $type($word), $(#[$tdoc])* $text or $unknown { $($(#[$vdoc])* $name = $value => $what,)* }
        }
        impl $type {
            $(#[$cdoc])*
            pub const fn $constant(self) -> &'static str {
                match self.0 {
                    $($value => stringify!($name),)*
                    _ => "UNKNOWN",
                }
            }
        }
    };
}
pub(crate) use open_enum;
