//! Sign-ins of the command line: weir polls the provider on behalf of a command, which knows neither the
//! client's secret nor the device code.

use super::provider::DeviceCode;
use crate::tokens::{self, TokenError};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_config::Oidc;

/// Maximum number of sign-ins at a time. They start at most once in an interval, and end after
/// [`MAX_AGE`]; further ones are rejected.
const MAX_LOGINS: usize = 512;
/// Longest life of a sign-in.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Interval of polling if the provider names none (RFC 8628 section 3.2).
const DEFAULT_INTERVAL: u64 = 5;
/// Longest interval of polling in seconds.
const MAX_INTERVAL: u64 = 60;
/// Added to the interval by `slow_down` (RFC 8628 section 3.5).
const SLOW_DOWN: u64 = 5;

/// Sign-ins that have started.
#[derive(Default)]
pub(crate) struct DeviceLogins(Mutex<Vec<Login>>);

struct Login {
    /// Hash of the handle.
    handle: String,
    device_code: String,
    origin: DeviceOrigin,
    /// Seconds between two polls.
    interval: u64,
    next: Instant,
    until: Instant,
}

/// Where a sign-in was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceOrigin {
    /// The provider, and the client at it, that have issued the device code.
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    /// Address of the command.
    pub(crate) address: Option<IpAddr>,
}

impl DeviceOrigin {
    /// Whether the device code is of the same client at the same provider.
    pub(crate) fn is_of(&self, settings: &Oidc) -> bool {
        self.issuer == settings.issuer && self.client_id == settings.client_id
    }
}

/// What the command line shows.
pub(crate) struct DeviceStart {
    /// The secret by which the command asks for the result.
    pub(crate) handle: String,
    /// Seconds between two polls.
    pub(crate) interval: u64,
    /// Seconds until the sign-in ends.
    pub(crate) expires_in: u64,
}

/// Whether the provider is to be asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// With this device code.
    Ask(String, DeviceOrigin),
    /// Not yet: in so many seconds.
    Wait(u64),
    /// There is no such sign-in any more.
    Gone,
}

impl DeviceLogins {
    /// Adds a sign-in; `None` if there are too many.
    pub(crate) fn add(
        &self,
        code: &DeviceCode,
        origin: DeviceOrigin,
        now: Instant,
    ) -> Result<Option<DeviceStart>, TokenError> {
        let handle = tokens::secret()?;
        let mut all = self.lock(now);
        if all.len() >= MAX_LOGINS {
            return Ok(None);
        }
        let interval = code.interval.unwrap_or(DEFAULT_INTERVAL).clamp(1, MAX_INTERVAL);
        let age = Duration::from_secs(code.expires_in).min(MAX_AGE);
        all.push(Login {
            handle: tokens::hash(&handle),
            device_code: code.device_code.clone(),
            origin,
            interval,
            next: now + Duration::from_secs(interval),
            until: now + age,
        });
        Ok(Some(DeviceStart { handle, interval, expires_in: age.as_secs() }))
    }

    /// Whether the provider is to be asked for the result of a sign-in; it is not asked again before the
    /// interval has passed.
    pub(crate) fn poll(&self, handle: &str, now: Instant) -> Polled {
        let hash = tokens::hash(handle);
        let mut all = self.lock(now);
        let Some(login) = all.iter_mut().find(|one| super::is_same(&one.handle, &hash)) else {
            return Polled::Gone;
        };
        if let Some(rest) = login.next.checked_duration_since(now).filter(|rest| !rest.is_zero()) {
            return Polled::Wait(rest.as_millis().div_ceil(1000) as u64);
        }
        login.next = now + Duration::from_secs(login.interval);
        Polled::Ask(login.device_code.clone(), login.origin.clone())
    }

    /// The provider wants to be asked less often. Returns the new interval.
    pub(crate) fn slow_down(&self, handle: &str, now: Instant) -> u64 {
        let hash = tokens::hash(handle);
        let mut all = self.lock(now);
        let found = all.iter_mut().find(|one| super::is_same(&one.handle, &hash));
        found.map_or(DEFAULT_INTERVAL, |login| {
            login.interval = (login.interval + SLOW_DOWN).min(MAX_INTERVAL);
            login.next = now + Duration::from_secs(login.interval);
            login.interval
        })
    }

    /// Seconds until the provider may be asked again.
    pub(crate) fn interval(&self, handle: &str, now: Instant) -> u64 {
        match self.poll(handle, now) {
            Polled::Wait(interval) => interval,
            Polled::Ask(..) | Polled::Gone => DEFAULT_INTERVAL,
        }
    }

    /// Ends a sign-in.
    pub(crate) fn end(&self, handle: &str, now: Instant) {
        let hash = tokens::hash(handle);
        self.lock(now).retain(|one| !super::is_same(&one.handle, &hash));
    }

    fn lock(&self, now: Instant) -> MutexGuard<'_, Vec<Login>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|login| now < login.until);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_is_asked_at_its_pace_and_not_for_ever() {
        let (logins, now) = (DeviceLogins::default(), Instant::now());
        let code = DeviceCode {
            device_code: "d".to_owned(),
            user_code: "U".to_owned(),
            verification_uri: "https://a".to_owned(),
            verification_uri_complete: None,
            expires_in: 100,
            interval: Some(2),
        };
        let origin = DeviceOrigin {
            issuer: "https://a".to_owned(),
            client_id: "weir".to_owned(),
            address: None,
        };
        let start = logins.add(&code, origin.clone(), now).unwrap().unwrap();
        let at = |seconds| now + Duration::from_secs(seconds);
        let ask = Polled::Ask("d".to_owned(), origin.clone());
        assert_eq!(logins.poll("wrong", now), Polled::Gone);
        assert_eq!(logins.poll(&start.handle, now), Polled::Wait(2));
        assert_eq!(logins.poll(&start.handle, at(2)), ask);
        assert_eq!(logins.poll(&start.handle, at(3)), Polled::Wait(1));
        assert_eq!(logins.slow_down(&start.handle, at(4)), 7);
        assert_eq!(logins.poll(&start.handle, at(10)), Polled::Wait(1));
        assert_eq!(logins.poll(&start.handle, at(11)), ask);
        assert_eq!(logins.poll(&start.handle, at(100)), Polled::Gone);
        let other = logins.add(&code, origin.clone(), now).unwrap().unwrap();
        logins.end(&other.handle, now);
        assert_eq!(logins.poll(&other.handle, at(2)), Polled::Gone);
        (0..MAX_LOGINS)
            .for_each(|_| assert!(logins.add(&code, origin.clone(), now).unwrap().is_some()));
        assert!(logins.add(&code, origin.clone(), now).unwrap().is_none());
    }
}
