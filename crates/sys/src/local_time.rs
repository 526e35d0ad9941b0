//! Owns the difference between local time and UTC. Does not read or show times.

#![allow(unsafe_code, reason = "there is no safe form of localtime_r")]

/// Seconds by which the local time is ahead of UTC at a moment, given in seconds since 1970. `None` if the C library does not know.
#[must_use]
pub fn offset_at(moment: i64) -> Option<i64> {
    let moment: libc::time_t = moment;
    // SAFETY: the struct has integers and a pointer, and zero is valid for each of them.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers refer to live values of these types, and no thread of the program changes the environment.
    let reported = unsafe { libc::localtime_r(&raw const moment, &raw mut parts) };
    (!reported.is_null()).then_some(parts.tm_gmtoff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_less_than_a_day_and_the_year_has_a_bound() {
        for moment in [0, 1_795_550_400, -86_400] {
            let offset = offset_at(moment).expect("a time of the calendar");
            assert!(offset.abs() < 86_400, "{offset}");
        }
        assert_eq!(offset_at(i64::MAX), None);
    }
}
