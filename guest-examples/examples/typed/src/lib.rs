//! Functions with types of their own, of every kind that JSON can be.

wit_bindgen::generate!({ path: "wit", world: "typed" });

use exports::examples::typed::echo::{Access, Guest as Echo, Point, Shape, Size};
use exports::examples::typed::ledger::{Guest as Ledger, GuestAccount};
use exports::examples::typed::numbers::{Guest as Numbers, Problem};
use exports::notes::Guest as Notes;

struct Typed;

impl Guest for Typed {
    fn greet(name: Option<String>) -> String {
        format!("Hello, {}!", name.as_deref().unwrap_or("world"))
    }
}

impl Echo for Typed {
    fn small(a: i8, b: u8, c: i16, d: u16, e: i32, f: u32) -> (i8, u8, i16, u16, i32, u32) {
        (a, b, c, d, e, f)
    }

    fn wide(signed: i64, unsigned: u64) -> (i64, u64) {
        (signed, unsigned)
    }

    fn floats(single: f32, double: f64) -> (f32, f64) {
        (single, double)
    }

    fn texts(letter: char, text: String, yes: bool) -> (char, String, bool) {
        (letter, text, yes)
    }

    fn bytes(data: Vec<u8>) -> Vec<u8> {
        data
    }

    fn series(values: Vec<f64>) -> Vec<f64> {
        values
    }

    fn points(values: Vec<Point>) -> Vec<Point> {
        values
    }

    fn draw(value: Shape) -> Shape {
        value
    }

    fn choice(size: Size, access: Access) -> (Size, Access) {
        (size, access)
    }

    fn maybe(value: Option<Option<u8>>) -> Option<Option<u8>> {
        value
    }

    fn outcomes(values: Vec<Result<u8, String>>) -> Vec<Result<u8, String>> {
        values
    }

    fn forget(value: String) {
        drop(value);
    }
}

impl Numbers for Typed {
    fn add(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }

    fn divide(dividend: i32, divisor: i32) -> Result<i32, Problem> {
        dividend.checked_div(divisor).ok_or_else(|| Problem {
            reason: "no-answer".into(),
            dividend,
        })
    }

    fn fill(byte: u8, times: u32) -> Vec<u8> {
        vec![byte; times as usize]
    }
}

impl Notes for Typed {
    fn add(text: String) -> u32 {
        u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
    }
}

impl Ledger for Typed {
    type Account = Account;
}

struct Account {
    name: String,
}

impl GuestAccount for Account {
    fn new(name: String) -> Self {
        Self { name }
    }

    fn balance(&self) -> u64 {
        self.name.len() as u64
    }
}

export!(Typed);
