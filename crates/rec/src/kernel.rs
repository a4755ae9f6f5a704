//! Which instructions the inner loops of [`reduce`](crate::reduce()) and of MLPs are written for, and which of them this processor has.

use std::fmt;

/// An instruction set that there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Plain Rust; runs anywhere.
    Portable,
    /// 8 numbers at once: AVX2, FMA and F16C.
    Avx2,
    /// 16 numbers at once: AVX-512 F, BW and VL.
    Avx512,
}

impl Kernel {
    /// All of them, the best last.
    pub const ALL: [Kernel; 3] = [Kernel::Portable, Kernel::Avx2, Kernel::Avx512];

    /// Whether this processor can run it. The answer is remembered by the standard library: a load and a test.
    pub fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && Kernel::Avx2.is_available()
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Those that this processor can run, the best last.
    pub fn available() -> impl Iterator<Item = Kernel> {
        Kernel::ALL.into_iter().filter(|kernel| kernel.is_available())
    }

    /// The best that this processor can run.
    pub fn best() -> Kernel {
        Kernel::available().last().unwrap_or(Kernel::Portable)
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kernel::Portable => "portable",
            Kernel::Avx2 => "avx2",
            Kernel::Avx512 => "avx512",
        })
    }
}
