package slowapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// SetBehind makes the clocks of the proxy's callers appear to be behind by a duration. The proxy
// adds the duration to all times in responses, and subtracts it from all times in requests. All
// calls must be in JSON.
//
// Call SetBehind before a caller starts. Otherwise the caller sees times of two different clocks. A
// duration of 0, the default, does not change times.
func (p *Proxy) SetBehind(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind = by
}

// behindKey is the key of a call's time shift in its context.
type behindKey struct{}

// setBack subtracts the shift from the times in a request.
func (p *Proxy) setBack(r *http.Request, body []byte) *http.Request {
	p.mu.RLock()
	by := p.behind
	p.mu.RUnlock()
	if by == 0 {
		return r
	}
	// Ask for JSON without compression, so that setForward can read the response.
	r.Header.Del("Accept-Encoding")
	r.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		body = shift(body, -by)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r.WithContext(context.WithValue(r.Context(), behindKey{}, by))
}

// setForward adds the shift to the times in a response.
func setForward(response *http.Response) error {
	by, ok := response.Request.Context().Value(behindKey{}).(time.Duration)
	if !ok {
		return nil
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !strings.HasPrefix(kind, "text/") {
		return fmt.Errorf("the times in %q cannot be changed", response.Header.Get("Content-Type"))
	}
	response.Header.Del("Content-Length")
	response.ContentLength = -1
	response.Body = &shifted{from: response.Body, lines: bufio.NewReader(response.Body), by: by}
	return nil
}

// shifted is a response body with shifted times. It processes one line after the other. Each event
// of a watch is one line.
type shifted struct {
	from  io.ReadCloser
	lines *bufio.Reader
	by    time.Duration
	ready []byte
	err   error
}

// Read implements io.Reader.
func (s *shifted) Read(to []byte) (int, error) {
	for len(s.ready) == 0 && s.err == nil {
		var line []byte
		line, s.err = s.lines.ReadBytes('\n')
		s.ready = shift(line, s.by)
	}
	n := copy(to, s.ready)
	s.ready = s.ready[n:]
	if n == 0 {
		return 0, s.err
	}
	return n, nil
}

// Close implements io.Closer.
func (s *shifted) Close() error { return s.from.Close() }

// shift adds a duration to all times in a JSON text.
func shift(text []byte, by time.Duration) []byte {
	return timeText().ReplaceAllFunc(text, func(found []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(found[1:len(found)-1]))
		if err != nil {
			return found
		}
		layout := "2006-01-02T15:04:05Z"
		if dot := bytes.IndexByte(found, '.'); dot > 0 {
			layout = "2006-01-02T15:04:05." + strings.Repeat("0", len(found)-dot-3) + "Z"
		}
		return []byte(`"` + at.Add(by).Format(layout) + `"`)
	})
}

func timeText() *regexp.Regexp {
	return regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
}

var _ io.ReadCloser = (*shifted)(nil)
