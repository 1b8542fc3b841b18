// Package escape makes control characters visible in text that others wrote, such as the messages
// of events. A terminal obeys control characters: they can move the cursor, hide text or change the
// window title.
//
// [Text] escapes a text, and [Line] also joins the text into one line. A [Writer] escapes all
// output of a program. All of them replace a control character by its Go escape, such as \u001b.
// JSON has the same escapes, so JSON output keeps its meaning. [JSON] is for pages that show the
// strings of JSON data to readers.
package escape
