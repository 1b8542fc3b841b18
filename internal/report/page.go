package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/escape"
)

//go:embed page
var built embed.FS

// Mode determines where the page gets its data.
type Mode string

const (
	// Still means that the page contains all its data.
	Still Mode = "still"
	// Live means that the page requests newer data from its server.
	Live Mode = "live"
)

// Write writes the page with a report. The content security policy of the page forbids requests.
// Only a Live page may connect to its server.
func Write(to io.Writer, r *Report, mode Mode) error {
	files := make(map[string]string, 3)
	for _, file := range []string{"index.html", "app.js", "style.css"} {
		text, err := built.ReadFile("page/" + file)
		if err != nil {
			return fmt.Errorf("the page is not built: %w", err)
		}
		files[file] = string(text)
	}
	data, err := Encode(r)
	if err != nil {
		return err
	}
	connect := "'none'"
	if mode == Live {
		connect = "'self'"
	}
	policy := fmt.Sprintf("default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; connect-src %s; script-src %s; style-src %s",
		connect, hashed(files["app.js"]), hashed(files["style.css"]))
	var page bytes.Buffer
	rest := files["index.html"]
	for _, part := range []struct{ marker, text string }{
		{"{{policy}}", policy}, {"{{mode}}", string(mode)}, {"{{style}}", files["style.css"]}, {"{{data}}", string(data)}, {"{{script}}", files["app.js"]},
	} {
		before, after, found := strings.Cut(rest, part.marker)
		if !found {
			return fmt.Errorf("the page has no place for %s; run make web", part.marker)
		}
		page.WriteString(before)
		page.WriteString(part.text)
		rest = after
	}
	page.WriteString(rest)
	if _, err := to.Write(page.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// Encode returns a report as JSON for the page. It escapes <, > and &, so that the data cannot end
// its HTML element. It also escapes control characters in names and messages, because they could
// change the order of the displayed text.
func Encode(r *Report) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the report: %w", err)
	}
	return escape.JSON(data), nil
}

// hashed returns a source for the content security policy that permits only the given text.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
