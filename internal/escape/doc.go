// Package escape makes control characters visible in text that others wrote, such as the messages
// of events. A terminal acts on these characters: they move the cursor, hide text or change the
// window.
//
// [Text] and [Line] return one text, the latter in one line. A [Writer] covers all output of a
// program, from any source. All three write each character as its Go escape, such as \u001b.
// This is the form of JSON as well, so JSON keeps its meaning. [JSON] is for pages that show the
// strings of their data.
package escape
