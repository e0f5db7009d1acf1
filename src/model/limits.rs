//! What one execution may use up.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// Compute, in wasmtime's fuel units (about one per WebAssembly instruction).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuel {
    /// At most this much.
    Metered(u64),
    /// Not counted; time and memory limits stay.
    Unlimited,
}

impl Fuel {
    /// How much; `None` if it is not counted.
    pub fn units(self) -> Option<u64> {
        match self {
            Self::Metered(units) => Some(units),
            Self::Unlimited => None,
        }
    }

    fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Metered(a), Self::Metered(b)) => Self::Metered(a.min(b)),
            (Self::Metered(a), Self::Unlimited) | (Self::Unlimited, Self::Metered(a)) => Self::Metered(a),
            (Self::Unlimited, Self::Unlimited) => Self::Unlimited,
        }
    }
}

impl Serialize for Fuel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Metered(units) => serializer.serialize_u64(*units),
            Self::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for Fuel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "fuel is a number of units or \"unlimited\"")]
        enum Wire {
            Units(u64),
            Word(Word),
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Word {
            Unlimited,
        }
        Ok(match Wire::deserialize(deserializer)? {
            Wire::Units(units) => Self::Metered(units),
            Wire::Word(Word::Unlimited) => Self::Unlimited,
        })
    }
}

/// What one execution may use up, all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Wall-clock time from the request to its end, in milliseconds: queueing, CPU, host
    /// calls, retries and streaming.
    pub timeout_ms: u64,
    /// Wall-clock time of one attempt, in milliseconds.
    pub attempt_timeout_ms: u64,
    /// All linear memories and tables of the execution together, in MiB.
    pub memory_mb: u64,
    /// Compute.
    pub fuel: Fuel,
    /// Share of one processor in percent. Below 100 a WebAssembly guest is slowed to it; 100 and
    /// more has no effect, since a guest has one thread at a time.
    pub cpu_percent: u64,
    /// Largest output, and largest stdout and stderr each, in bytes.
    pub output_bytes: u64,
    /// Largest arguments, as JSON text, in bytes.
    pub args_bytes: u64,
}

impl Limits {
    /// What a manifest that says nothing gets.
    pub const DEFAULT: Self = Self {
        timeout_ms: 30_000,
        attempt_timeout_ms: 30_000,
        memory_mb: 256,
        fuel: Fuel::Metered(10_000_000_000),
        cpu_percent: 100,
        output_bytes: 1 << 20,
        args_bytes: 1 << 20,
    };

    /// The most this host gives to anybody.
    pub const HOST_MAXIMUM: Self = Self {
        timeout_ms: 86_400_000,
        attempt_timeout_ms: 86_400_000,
        memory_mb: 4096,
        fuel: Fuel::Unlimited,
        cpu_percent: 10_000,
        output_bytes: 64 << 20,
        args_bytes: 16 << 20,
    };

    /// The smaller of both, field by field: never more than either side.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self {
            timeout_ms: self.timeout_ms.min(other.timeout_ms),
            attempt_timeout_ms: self.attempt_timeout_ms.min(other.attempt_timeout_ms),
            memory_mb: self.memory_mb.min(other.memory_mb),
            fuel: self.fuel.min(other.fuel),
            cpu_percent: self.cpu_percent.min(other.cpu_percent),
            output_bytes: self.output_bytes.min(other.output_bytes),
            args_bytes: self.args_bytes.min(other.args_bytes),
        }
    }
}

/// Limits of which only some are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LimitsPatch {
    /// See [`Limits::timeout_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// See [`Limits::attempt_timeout_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout_ms: Option<u64>,
    /// See [`Limits::memory_mb`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// See [`Limits::fuel`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<Fuel>,
    /// See [`Limits::cpu_percent`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u64>,
    /// See [`Limits::output_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// See [`Limits::args_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_bytes: Option<u64>,
}

impl LimitsPatch {
    /// The given limits, and `base` where none is given. A timeout without an attempt
    /// timeout stands for both.
    pub fn over(self, base: Limits) -> Limits {
        let attempt = self.attempt_timeout_ms.or(self.timeout_ms);
        Limits {
            timeout_ms: self.timeout_ms.unwrap_or(base.timeout_ms),
            attempt_timeout_ms: attempt.unwrap_or(base.attempt_timeout_ms),
            memory_mb: self.memory_mb.unwrap_or(base.memory_mb),
            fuel: self.fuel.unwrap_or(base.fuel),
            cpu_percent: self.cpu_percent.unwrap_or(base.cpu_percent),
            output_bytes: self.output_bytes.unwrap_or(base.output_bytes),
            args_bytes: self.args_bytes.unwrap_or(base.args_bytes),
        }
    }

    /// A sentence for each limit that is given and is more than what `granted` allows; `by` says who does not.
    pub fn cut_to(&self, granted: &Limits, by: &str) -> Vec<String> {
        let numbers = [
            ("timeoutMs", self.timeout_ms, granted.timeout_ms),
            ("attemptTimeoutMs", self.attempt_timeout_ms, granted.attempt_timeout_ms),
            ("memoryMb", self.memory_mb, granted.memory_mb),
            ("cpuPercent", self.cpu_percent, granted.cpu_percent),
            ("outputBytes", self.output_bytes, granted.output_bytes),
            ("argsBytes", self.args_bytes, granted.args_bytes),
            ("fuel", self.fuel.and_then(Fuel::units), granted.fuel.units().unwrap_or(u64::MAX)),
        ];
        let cut = numbers.into_iter().filter_map(|(name, asked, granted)| Some((name, asked?, granted)));
        let cut = cut.filter(|(_, asked, granted)| asked > granted);
        let said = |name: &str, asked: &dyn Display, granted| {
            format!("limits.{name} is {granted}, the most that {by}, and not {asked}")
        };
        let fuel = granted.fuel.units().filter(|_| self.fuel == Some(Fuel::Unlimited));
        let fuel = fuel.map(|granted| said("fuel", &"unlimited", granted));
        cut.map(|(name, asked, granted)| said(name, &asked, granted)).chain(fuel).collect()
    }

    /// The name of the first limit that is given as zero, which nothing can run under.
    pub fn zero(&self) -> Option<&'static str> {
        let numbers = [
            ("timeoutMs", self.timeout_ms),
            ("attemptTimeoutMs", self.attempt_timeout_ms),
            ("memoryMb", self.memory_mb),
            ("cpuPercent", self.cpu_percent),
            ("outputBytes", self.output_bytes),
            ("argsBytes", self.args_bytes),
        ];
        let zero = numbers.iter().find(|(_, value)| *value == Some(0)).map(|(name, _)| *name);
        zero.or((self.fuel == Some(Fuel::Metered(0))).then_some("fuel"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits() -> impl Strategy<Value = Limits> {
        let fuel = prop_oneof![any::<u64>().prop_map(Fuel::Metered), Just(Fuel::Unlimited)];
        (any::<[u64; 6]>(), fuel).prop_map(|(n, fuel)| Limits {
            timeout_ms: n[0],
            attempt_timeout_ms: n[1],
            memory_mb: n[2],
            fuel,
            cpu_percent: n[3],
            output_bytes: n[4],
            args_bytes: n[5],
        })
    }

    proptest! {
        #[test]
        fn an_intersection_gives_no_more_than_either_side(a in limits(), b in limits()) {
            let both = a.intersect(b);
            prop_assert_eq!(both, b.intersect(a));
            prop_assert_eq!(both.intersect(a), both);
            prop_assert_eq!(both.intersect(b), both);
        }
    }

    #[test]
    fn what_is_cut_is_said() {
        let granted = Limits { fuel: Fuel::Metered(5), ..Limits::DEFAULT };
        let patch = LimitsPatch { timeout_ms: Some(30_001), memory_mb: Some(256), ..LimitsPatch::default() };
        let patch = LimitsPatch { fuel: Some(Fuel::Metered(6)), ..patch };
        assert_eq!(
            patch.cut_to(&granted, "a key may"),
            [
                "limits.timeoutMs is 30000, the most that a key may, and not 30001",
                "limits.fuel is 5, the most that a key may, and not 6",
            ]
        );
        assert!(patch.cut_to(&Limits::HOST_MAXIMUM, "a key may").is_empty());
        let patch = LimitsPatch { fuel: Some(Fuel::Unlimited), ..LimitsPatch::default() };
        assert_eq!(
            patch.cut_to(&granted, "a key may"),
            ["limits.fuel is 5, the most that a key may, and not unlimited"]
        );
        assert!(patch.cut_to(&Limits::HOST_MAXIMUM, "a key may").is_empty());
    }

    #[test]
    fn fuel_reads_a_number_or_the_word() {
        let patch = |text| serde_json::from_str::<LimitsPatch>(text);
        assert_eq!(patch(r#"{"fuel":7}"#).unwrap().fuel, Some(Fuel::Metered(7)));
        assert_eq!(patch(r#"{"fuel":"unlimited"}"#).unwrap().fuel, Some(Fuel::Unlimited));
        for bad in [r#"{"fuel":"lots"}"#, r#"{"fuel":-1}"#, r#"{"fuel":1.5}"#, r#"{"feul":1}"#] {
            assert!(patch(bad).is_err(), "{bad}");
        }
    }
}
