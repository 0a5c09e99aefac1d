//! Signatures by the convention of Standard Webhooks: HMAC-SHA256 of the id, the time and the body.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::fill;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The text that secrets begin with.
const PREFIX: &str = "whsec_";

/// The bytes of a secret; the convention takes 24 to 64.
const SECRET_BYTES: usize = 32;

/// A new secret, as text.
///
/// # Errors
/// If the system has no random bytes.
pub(crate) fn new_secret() -> Result<String, aws_lc_rs::error::Unspecified> {
    let mut bytes = [0; SECRET_BYTES];
    fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", STANDARD.encode(bytes)))
}

/// The header `webhook-signature`: one signature for each secret. A secret that is no text of
/// [`new_secret`], as it was edited, signs nothing.
pub(crate) fn header(secrets: &[&str], id: &str, timestamp: i64, body: &str) -> String {
    let content = format!("{id}.{timestamp}.{body}");
    let sign = |secret: &&str| {
        let bytes = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let signature = hmac::sign(&key, content.as_bytes());
        Some(format!("v1,{}", STANDARD.encode(signature.as_ref())))
    };
    secrets.iter().filter_map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_conventions_example() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        assert_eq!(
            header(&[secret], id, 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn each_secret_signs() {
        let secrets = [new_secret().unwrap(), new_secret().unwrap()];
        let of = |secrets: &[&str]| header(secrets, "a", 1, "{}");
        let [new, former] = [&secrets[0], &secrets[1]];
        assert_eq!(of(&[new, former]), format!("{} {}", of(&[new]), of(&[former])));
        assert_eq!(of(&["whsec_§", former]), of(&[former]));
    }
}
