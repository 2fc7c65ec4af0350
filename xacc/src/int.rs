//! Integers of any type, where a program gives a number.

mod sealed {
    pub trait Sealed: Copy {
        /// The number; one that is too large is the largest.
        fn number(self) -> i64;
    }
}

/// An integer type. Programs get `i64`s, as node numbers, coordinates, indices and lengths, and may give numbers of any type.
pub trait Int: sealed::Sealed {}

macro_rules! ints {
    ($($int:ty),+) => {
        $(
            impl Int for $int {}
            impl sealed::Sealed for $int {
                #[inline]
                fn number(self) -> i64 {
                    i64::try_from(self).unwrap_or(i64::MAX)
                }
            }
        )+
    };
}
ints!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
