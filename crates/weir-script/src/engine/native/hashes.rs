//! Random bytes, digests, HMAC.

use super::{array, maybe, unpacked};
use aws_lc_rs::{digest, hmac, rand};
use rquickjs::prelude::Func;
use rquickjs::{Ctx, Error, Object, Value};

/// Most random bytes at once (Web Cryptography API, `getRandomValues`).
const RANDOM: usize = 65_536;

pub(super) fn add(object: &Object<'_>) -> Result<(), Error> {
    object.set("random", Func::from(|ctx, count| random(ctx, count)))?;
    let uuid = || {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).ok()?;
        Some(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
    };
    object.set("uuid", Func::from(uuid))?;
    object.set("digest", Func::from(|ctx, name, data| hash(ctx, name, data)))?;
    object.set("hmac", Func::from(|ctx, name, key, data| sign(ctx, name, key, data)))?;
    let equal = |a: String, b: String| {
        aws_lc_rs::constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
    };
    object.set("equal", Func::from(equal))
}

fn random(ctx: Ctx<'_>, count: f64) -> Result<Value<'_>, Error> {
    let count = count as usize;
    let mut bytes = vec![0; count.min(RANDOM)];
    if count > RANDOM || rand::fill(&mut bytes).is_err() {
        return Ok(Value::new_undefined(ctx));
    }
    array(ctx, &bytes)
}

/// The HMAC of a hash function.
fn algorithm(name: &str) -> Option<hmac::Algorithm> {
    match name {
        "SHA-1" => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        "SHA-256" => Some(hmac::HMAC_SHA256),
        "SHA-384" => Some(hmac::HMAC_SHA384),
        "SHA-512" => Some(hmac::HMAC_SHA512),
        _ => None,
    }
}

fn hash(ctx: Ctx<'_>, name: String, data: String) -> Result<Value<'_>, Error> {
    let Some(algorithm) = algorithm(&name) else { return maybe::<()>(&ctx, None) };
    array(ctx, digest::digest(algorithm.digest_algorithm(), &unpacked(&data)).as_ref())
}

fn sign(ctx: Ctx<'_>, name: String, key: String, data: String) -> Result<Value<'_>, Error> {
    let Some(algorithm) = algorithm(&name) else { return maybe::<()>(&ctx, None) };
    let key = hmac::Key::new(algorithm, &unpacked(&key));
    array(ctx, hmac::sign(&key, &unpacked(&data)).as_ref())
}
