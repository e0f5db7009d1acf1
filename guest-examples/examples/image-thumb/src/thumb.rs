//! The image work, which knows nothing of skills and so can be tested as plain Rust.

use std::io::Cursor;

use image::{DynamicImage, ImageError, ImageFormat, ImageReader, Limits};

/// Longest side a thumbnail may have.
pub(crate) const MAX_SIDE: u32 = 2048;
/// Most pixels a source may have. At 8 bytes each, the most a PNG can need, it decodes
/// into 80 MB.
const MAX_PIXELS: u64 = 10_000_000;
/// Most bytes the decoder may allocate.
const MAX_DECODER_BYTES: u64 = 96 << 20;

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// A thumbnail and what it was made from.
pub(crate) struct Thumb {
    pub(crate) png: Vec<u8>,
    pub(crate) size: Size,
    pub(crate) source: Size,
}

/// Why there is no thumbnail.
#[derive(Debug)]
pub(crate) enum BadImage {
    /// The box asked for is empty or too large.
    Size(String),
    /// The source has too many pixels.
    TooLarge(String),
    /// The source is no PNG, or a broken one.
    Unreadable(ImageError),
}

impl From<ImageError> for BadImage {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Limits(error) => Self::TooLarge(error.to_string()),
            error => Self::Unreadable(error),
        }
    }
}

/// Shrinks `png` until it fits `within`. A source that fits already keeps its size.
pub(crate) fn make(png: &[u8], within: Size) -> Result<Thumb, BadImage> {
    let sides = 1..=MAX_SIDE;
    if !sides.contains(&within.width) || !sides.contains(&within.height) {
        let why = format!("width and height must be 1 to {MAX_SIDE}");
        return Err(BadImage::Size(why));
    }
    let source = size(png)?;
    let image = decode(png)?;
    let small = if source.width <= within.width && source.height <= within.height {
        image
    } else {
        image.thumbnail(within.width, within.height)
    };
    Ok(Thumb {
        size: Size {
            width: small.width(),
            height: small.height(),
        },
        png: encode(&small)?,
        source,
    })
}

/// Reads the header alone, so that nothing large is decoded before it is refused.
fn size(png: &[u8]) -> Result<Size, BadImage> {
    let (width, height) = reader(png).into_dimensions()?;
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MAX_PIXELS {
        let why = format!("{width} x {height} pixels, more than {MAX_PIXELS} in all");
        return Err(BadImage::TooLarge(why));
    }
    Ok(Size { width, height })
}

fn decode(png: &[u8]) -> Result<DynamicImage, ImageError> {
    reader(png).decode()
}

fn reader(png: &[u8]) -> ImageReader<Cursor<&[u8]>> {
    let mut reader = ImageReader::with_format(Cursor::new(png), ImageFormat::Png);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    reader
}

fn encode(image: &DynamicImage) -> Result<Vec<u8>, ImageError> {
    let mut png = Cursor::new(Vec::new());
    image.write_to(&mut png, ImageFormat::Png)?;
    Ok(png.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        encode(&DynamicImage::new_rgba8(width, height)).unwrap()
    }

    fn within(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn a_thumbnail_keeps_the_shape() {
        let thumb = make(&png(400, 100), within(40, 40)).unwrap();
        assert_eq!(thumb.size, within(40, 10));
        assert_eq!(thumb.source, within(400, 100));
        assert_eq!(size(&thumb.png).unwrap(), thumb.size);
    }

    #[test]
    fn a_small_image_is_not_enlarged() {
        let thumb = make(&png(4, 2), within(100, 100)).unwrap();
        assert_eq!(thumb.size, within(4, 2));
    }

    #[test]
    fn an_empty_box_is_refused() {
        let refused = make(&png(4, 2), within(0, 100));
        assert!(matches!(refused, Err(BadImage::Size(_))));
    }

    #[test]
    fn a_header_that_promises_too_much_is_refused() {
        let refused = make(&png(5000, 2001), within(10, 10));
        assert!(matches!(refused, Err(BadImage::TooLarge(_))));
    }

    #[test]
    fn what_is_no_png_is_refused() {
        let refused = make(b"GIF89a", within(10, 10));
        assert!(matches!(refused, Err(BadImage::Unreadable(_))));
    }
}
