//! Owns the form of a delivery, as the Standard Webhooks specification 1.0 defines it: its signature, and when it is retried.
//! Sends nothing.

use std::time::Duration;

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use godwit_state::{PendingDelivery, Secret};

/// The beginning of a key.
const PREFIX: &str = "whsec_";

/// Bytes of a key: as many as the specification allows.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Bytes of a key that the node makes.
const OWN_KEY_BYTES: usize = 32;

/// Pauses before the attempts after the first one: the specification's example. A delivery is given up after three days.
const PAUSES: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3_600),
    Duration::from_secs(5 * 3_600),
    Duration::from_secs(10 * 3_600),
    Duration::from_secs(14 * 3_600),
    Duration::from_secs(20 * 3_600),
    Duration::from_secs(24 * 3_600),
];

/// Longest wait that a receiver may ask for.
const WISH_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The key in a text; None if the text is no key.
pub(crate) fn key(secret: &str) -> Option<Vec<u8>> {
    let key = BASE64
        .decode(secret.strip_prefix(PREFIX)?.as_bytes())
        .ok()?;
    KEY_BYTES.contains(&key.len()).then_some(key)
}

/// A new key.
///
/// # Errors
/// The system gives no random numbers.
pub(crate) fn make_key() -> Result<String, getrandom::Error> {
    let mut bytes = [0; OWN_KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", BASE64.encode(&bytes)))
}

/// The body with the bytes of the job that wait in the transfer buffer. None if it is not about a job.
pub(crate) fn with_buffered(body: &str, bytes: u64) -> Option<String> {
    let mut body: serde_json::Value = serde_json::from_str(body).ok()?;
    let data = body.get_mut("data")?.as_object_mut()?;
    data.insert("buffered".to_owned(), bytes.into());
    Some(body.to_string())
}

/// The id of a delivery. It is the same at each attempt, so a receiver recognizes a repeated delivery.
pub(crate) fn id(delivery: &PendingDelivery) -> String {
    format!("msg_{}_{}", delivery.job, delivery.id)
}

/// The signature over id, seconds since 1970 and body. None if the secret is no key.
pub(crate) fn signature(secret: &Secret, id: &str, seconds: i64, body: &str) -> Option<String> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key(secret.expose())?);
    let signed = hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
    Some(format!("v1,{}", BASE64.encode(signed.as_ref())))
}

/// How long to wait after this many attempts; None gives the delivery up. `wish` is the wait that the receiver asked for.
pub(crate) fn pause(attempts: u32, wish: Option<Duration>) -> Option<Duration> {
    let index = usize::try_from(attempts.saturating_sub(1)).ok()?;
    let pause = *PAUSES.get(index)?;
    Some(wish.map_or(pause, |wish| pause.max(wish.min(WISH_MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_specification() {
        // The example of the specification's reference libraries.
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed = signature(
            &secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            "{\"test\": 2432232314}",
        );
        assert_eq!(
            signed.as_deref(),
            Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
    }

    #[test]
    fn keys_are_of_the_form_and_length_of_the_specification() {
        let own = make_key().expect("random");
        assert_eq!(key(&own).map(|key| key.len()), Some(32));
        for wrong in ["", "secret", "whsec_", "whsec_c2VjcmV0", "whsec_%%%%"] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_body_names_the_bytes_that_wait() {
        let body = r#"{"type":"job.complete","data":{"id":"j1"}}"#;
        let told = with_buffered(body, 7).expect("about a job");
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(told["data"]["buffered"], 7);
        assert_eq!(told["data"]["id"], "j1");
        assert_eq!(with_buffered("[]", 7), None);
    }

    #[test]
    fn pauses_grow_until_the_delivery_is_given_up() {
        assert_eq!(pause(1, None), Some(Duration::from_secs(5)));
        assert_eq!(pause(9, None), Some(Duration::from_secs(86_400)));
        assert_eq!(pause(10, None), None);
        let wish = Duration::from_secs(60);
        assert_eq!(pause(1, Some(wish)), Some(wish));
        assert_eq!(pause(3, Some(wish)), Some(PAUSES[2]));
        assert_eq!(pause(1, Some(Duration::MAX)), Some(WISH_MAX));
    }
}
