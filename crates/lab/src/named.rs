//! Things that have names: on the command line, in tables and in JSON.

/// Makes an enum whose variants each have a name; `-` and `_` in it are one to who types it.
macro_rules! named {
    (
        $(#[$about:meta])*
        $Name:ident { $($(#[$doc:meta])+ $Variant:ident = $name:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Name {
            $($(#[$doc])+ $Variant,)+
        }

        impl $Name {
            /// All of them.
            pub const ALL: &'static [$Name] = &[$($Name::$Variant),+];

            /// The name in JSON and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Name::$Variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = String;
            fn from_str(text: &str) -> std::result::Result<$Name, String> {
                $crate::named::find($Name::ALL.iter().copied(), $Name::name, text)
            }
        }

        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<$Name, D::Error> {
                $crate::worker::by_name::deserialize(from)
            }
        }
    };
}

pub(crate) use named;

/// That of all which has the name, or what was expected.
pub(crate) fn find<T: Copy>(
    mut all: impl Iterator<Item = T> + Clone,
    name: impl Fn(T) -> &'static str,
    text: &str,
) -> Result<T, String> {
    let same = |one: &T| name(*one).replace('-', "_") == text.replace('-', "_");
    let names = all.clone();
    all.find(same).ok_or_else(|| {
        let names: Vec<_> = names.map(&name).collect();
        format!("expected one of {}, found {text:?}", names.join(", "))
    })
}
