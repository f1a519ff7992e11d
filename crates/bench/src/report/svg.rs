//! One drawing, element by element: what [`super::plots`] draws with. It escapes every string and writes every number in the
//! same short form, so that a plot can put a label anywhere without thinking of either. Colours are classes of the page's
//! style sheet, which knows of dark mode and print; nothing here names a colour.

use super::text::escaped;
use std::fmt::Write;

/// A drawing that is being made.
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text begins, ends or has its middle.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// It begins at the point.
    Start,
    /// Its middle is at the point.
    Middle,
    /// It ends at the point.
    End,
}

impl Svg {
    /// An empty drawing that is read out as `title`.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        Self { body: format!("<title>{}</title>", escaped(title)), width, height }
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ =
            write!(self.body, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    /// A rectangle; one of no size is left out.
    pub fn rectangle(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x, y, width, height) = (from.0, from.1, to.0 - from.0, to.1 - from.1);
        if width > 0.0 && height > 0.0 {
            let _ = write!(
                self.body,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            );
        }
    }

    /// A line through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut data = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let _ = write!(data, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
        }
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{data}\"/>");
    }

    /// A dot.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let _ = write!(self.body, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>");
    }

    /// A mark whose shape tells targets apart without colour: disc, square, triangle, diamond in turn.
    pub fn mark(&mut self, class: &str, (x, y): (f64, f64), shape: u32) {
        let corners: &[(f64, f64)] = match shape % 4 {
            0 => return self.dot(class, (x, y), 3.6),
            1 => &[(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)],
            2 => &[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)],
            _ => &[(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)],
        };
        let points: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        let _ = write!(self.body, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// A text on its base line.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        );
    }

    /// The element.
    pub fn finish(self) -> String {
        let Self { body, width, height } = self;
        format!(
            "<svg role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">{body}</svg>"
        )
    }
}

/// A stretch of values laid over a stretch of the drawing. What lies outside is drawn at the edge.
pub struct Scale {
    from: f64,
    to: f64,
    at_from: f64,
    at_to: f64,
}

impl Scale {
    /// Values `from` to `to` at the places `at_from` to `at_to`. An empty stretch is widened a little.
    pub fn new((from, to): (f64, f64), (at_from, at_to): (f64, f64)) -> Self {
        let to = if to > from { to } else { from + from.abs().max(1e-9) * 1e-3 };
        Self { from, to, at_from, at_to }
    }

    /// Where a value is.
    pub fn at(&self, value: f64) -> f64 {
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.at_from + if part.is_nan() { 0.0 } else { part } * (self.at_to - self.at_from)
    }

    /// Whether a value lies within.
    pub fn holds(&self, value: f64) -> bool {
        (self.from..=self.to).contains(&value)
    }
}

/// The class of a target's lines or marks: eight colours in turn.
pub fn of_target(kind: &str, target: u32) -> String {
    format!("{kind} c{}", target % 8)
}
