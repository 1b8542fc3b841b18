package escape_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/escape"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, ünïcödé 世界 👩‍💻":  "plain, ünïcödé 世界 👩‍💻",
		"\x1b[2J\x1b]0;title\a":  `\u001b[2J\u001b]0;title\u0007`,
		"two\nlines\r\tand\x00":  `two lines  and\u0000`,
		"\u009b31m":              `\u009b31m`,
		"raw \x9b31m":            `raw \u009b31m`,
		"a\u202eb\u2066c\u2028d": `a\u202eb\u2066c\u2028d`,
		"back\bspace\x7f":        `back\u0008space\u007f`,
		"":                       "",
	} {
		got := escape.Line(text)
		if text == "raw \x9b31m" {
			// strings.Map replaces bytes that are not valid UTF-8.
			want = "raw \ufffd31m"
		}
		if got != want {
			t.Errorf("Line(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	const text = "a\xffrb\xff0 \xffq \x1b[31m 世\u202e\x9b\n\t\"\xff"
	want := "a<red>b<off> \\xffq \\u001b[31m 世\\u202e\\x9b\n\t\"\\xff"
	for size := 1; size <= len(text); size++ {
		var out strings.Builder
		w := &escape.Writer{To: &out, Marks: map[byte]string{'r': "<red>", '0': "<off>"}}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if wrote, err := w.Write([]byte(rest[:n])); wrote != n || err != nil {
				t.Fatalf("it wrote %d of %d: %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("in pieces of %d it wrote %q, want %q", size, out.String(), want)
		}
	}
}

// TestShownJSON checks that a page shows an escape in place of each character that would change the
// text around it.
func TestShownJSON(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(map[string]string{"a\u202e": "\u009b31m 世 \"quoted\" \\"})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(escape.JSON(encoded), &got); err != nil || len(got) != 1 || got[`a\u202e`] != `\u009b31m 世 "quoted" \` {
		t.Errorf("%s is %q (%v)", encoded, got, err)
	}
}

// TestJSON checks that the encoded value decodes to the original value.
func TestJSON(t *testing.T) {
	t.Parallel()
	const value = "\x1b[31m\u009b\u202e\n世\u2028<&>"
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := (&escape.Writer{To: &out}).Write(encoded); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got != value {
		t.Errorf("%s is %q (%v), want %q", out.String(), got, err, value)
	}
	if strings.ContainsAny(out.String(), "\u009b\u202e") {
		t.Errorf("it wrote %q", out.String())
	}
}
