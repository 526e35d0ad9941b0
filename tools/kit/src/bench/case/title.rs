//! Owns the texts for loads and sizes. Makes no decisions.

use super::super::data::Load;
use super::Class;

/// `4000 × 1 MiB, TLS`.
pub(super) fn title(load: Load, class: Class) -> String {
    let how = if class == Class::Plain {
        "plain"
    } else {
        "TLS"
    };
    format!("{}, {how}", what(load))
}

/// `4000 × 1 MiB`.
pub(super) fn what(load: Load) -> String {
    match load {
        Load::Spec { spec, files, .. } => format!("{files} files of `{spec}`"),
        Load::Memory { bytes } => format!("{} memory to memory", size(bytes)),
        Load::Files {
            files,
            bytes: 0,
            directories,
        } => {
            format!("{files} empty files in {directories} directories")
        }
        Load::Files {
            files,
            bytes,
            directories: 0,
        } => format!("{files} × {}", size(bytes)),
        Load::Files {
            files,
            bytes,
            directories,
        } => {
            format!("{files} × {} in {directories} directories", size(bytes))
        }
        Load::HardLinks { files } => format!("{files} empty files with a hard link each"),
        Load::Sparse { bytes } => format!("one sparse file of {}", size(bytes)),
    }
}

/// `4 GiB`; exact if the number is a multiple of the unit, otherwise with one decimal.
pub(crate) fn size(bytes: u64) -> String {
    let units = [
        (1_u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    for (unit, name) in units {
        if bytes >= unit {
            let (whole, tenths) = (bytes / unit, bytes % unit * 10 / unit);
            return match bytes % unit {
                0 => format!("{whole} {name}"),
                _ => format!("{whole}.{tenths} {name}"),
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_or_have_a_decimal() {
        let titles = [
            (4 << 30, "4 GiB"),
            (8192, "8 KiB"),
            (1 << 40, "1 TiB"),
            (7, "7 B"),
        ];
        for (bytes, title) in titles {
            assert_eq!(size(bytes), title);
        }
        assert_eq!(size((5 << 20) + (1 << 19)), "5.5 MiB");
    }
}
