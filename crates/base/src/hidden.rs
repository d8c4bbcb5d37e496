//! Secrets are not shown.

/// Types whose `Debug` says their name and nothing else: what they hold is secret.
#[macro_export]
macro_rules! hidden {
    ($($type:ty),*) => {$(
        impl ::core::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(concat!(stringify!($type), "(..)"))
            }
        }
    )*};
}
