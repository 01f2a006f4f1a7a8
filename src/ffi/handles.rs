//! What all handle types have in common. The numbers behind them, and how those are checked, are those of
//! [`crate::memory::HandleTable`].

/// What every handle type can do.
macro_rules! handles {
    ($($name:ident;)*) => { $(
        impl $name {
            /// The handle that names nothing.
            pub const NULL: $name = $name { id: 0 };
        }
        impl From<crate::memory::Handle> for $name {
            fn from(handle: crate::memory::Handle) -> $name { $name { id: handle.0 } }
        }
        impl From<$name> for crate::memory::Handle {
            fn from(handle: $name) -> crate::memory::Handle { crate::memory::Handle(handle.id) }
        }
    )* };
}
pub(super) use handles;
