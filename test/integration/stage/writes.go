package stage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	// quiet is for how long nothing is written once all has settled, and settling how long that may take to come about.
	quiet    = 10 * time.Second
	settling = 90 * time.Second
	// mostAlike is how often a test may have the very same said of an object: some are tried again and again, and each time that is
	// said may be another word about a cluster which others change, too. More than every other second, and once for each pod that others bind, is a
	// fault.
	mostAlike, alikePause = 10, 2 * time.Second
)

// writer is how a scheduler and its controllers begin their user agent.
const writer = "reprieve-scheduler/"

// auditPolicy records what is written, with its content. Leases are renewed all the time, and reviews change nothing.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources: [{group: coordination.k8s.io}, {group: authentication.k8s.io}, {group: authorization.k8s.io}]
- level: Request
`

// write is a call of a scheduler, or of its controllers, that changes something.
type write struct {
	at time.Time
	// what is the verb and the object.
	what, namespace string
	// body is what was sent, without times and versions.
	body string
	code int32
}

// settles fails a test that leaves a scheduler which does not come to rest.
func (s *Stage) settles() {
	s.Helper()
	if s.Failed() || !s.schedules() {
		// A scheduler that has ended has come to rest.
		return
	}
	if err := s.comeToRest(); err != nil {
		s.Error(err)
	}
}

// comeToRest waits until nothing has been written for a while: once nothing happens any more, nothing is to be written either.
func (s *Stage) comeToRest() error {
	begun, end := time.Now(), time.Now().Add(settling)
	for {
		writes, err := s.writes(nil)
		if err != nil {
			return fmt.Errorf("whether it settles is not known: %w", err)
		}
		since := s.begun
		if n := len(writes); n > 0 && writes[n-1].at.After(since) {
			since = writes[n-1].at
		}
		left := quiet - time.Since(since)
		if left <= 0 {
			return nil
		}
		if time.Now().Add(left).After(end) {
			return fmt.Errorf("something is written all the time, although nothing has happened for %s:\n%s", time.Since(begun).Round(time.Second), last(writes, quiet))
		}
		<-time.After(left)
	}
}

// saysNothingTwice fails a test in which the same was written again and again in the test's namespace. It is what is asked of
// a cluster that others use too, which never settles.
func (s *Stage) saysNothingTwice() {
	s.Helper()
	if s.Failed() {
		return
	}
	// The log is that of all tests, and long.
	writes, err := s.writes(fmt.Appendf(nil, "%q:%q", "namespace", s.Namespace))
	if err != nil {
		s.Errorf("what has been written is not known: %v", err)
		return
	}
	others, err := s.writes([]byte("/binding"))
	if err != nil {
		s.Errorf("what others have bound is not known: %v", err)
		return
	}
	said, most := make(map[string]int), mostAlike+int(time.Since(s.begun)/alikePause)
	for _, w := range others {
		if w.namespace != s.Namespace && w.at.After(s.begun) && strings.HasSuffix(w.what, "/binding") {
			most++
		}
	}
	for _, w := range writes {
		if w.namespace != s.Namespace || w.code >= http.StatusBadRequest || w.at.Before(s.begun) || strings.Contains(w.what, "/events/") {
			continue
		}
		said[w.what+" "+w.body]++
		if said[w.what+" "+w.body] == most+1 {
			s.Errorf("this is written again and again: %s %s", w.what, w.body)
		}
	}
}

// schedules reports whether a scheduler runs.
func (s *Stage) schedules() bool {
	return slices.ContainsFunc(s.Run.Components(), func(c *playground.Component) bool {
		return strings.Contains(c.Name(), playground.Scheduler) && c.PID() != 0
	})
}

// last lists the writes of a time, for people.
func last(writes []write, period time.Duration) string {
	var b strings.Builder
	for _, w := range writes {
		if time.Since(w.at) < period {
			fmt.Fprintf(&b, "  %s %s %d %.300s\n", w.at.Format(time.TimeOnly), w.what, w.code, w.body)
		}
	}
	return b.String()
}

// changing is what differs between two calls that say the same.
var changing = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"|"resourceVersion":"\d+"`)

// writes are those so far, the oldest first, of which the log has some words.
func (s *Stage) writes(words []byte) ([]write, error) {
	file, err := os.Open(s.Run.AuditLog())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var out []write
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// The API server may be writing the last line.
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if !bytes.Contains(line, words) || !bytes.Contains(line, []byte(writer)) {
			continue
		}
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if !strings.HasPrefix(e.UserAgent, writer) || !isWrite(&e) {
			continue
		}
		out = append(out, writeOf(&e))
	}
}

// isWrite reports whether a call changes something, whatever policy the log is by. Leases are renewed all the time.
func isWrite(e *auditv1.Event) bool {
	return e.ObjectRef != nil && !slices.Contains([]string{"get", "list", "watch"}, e.Verb) &&
		!slices.Contains([]string{"coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}, e.ObjectRef.APIGroup)
}

func writeOf(e *auditv1.Event) write {
	path, _, _ := strings.Cut(e.RequestURI, "?")
	w := write{at: e.StageTimestamp.Time, what: e.Verb + " " + path, namespace: e.ObjectRef.Namespace}
	if e.RequestObject != nil {
		w.body = changing.ReplaceAllString(string(e.RequestObject.Raw), "…")
	}
	if e.ResponseStatus != nil {
		w.code = e.ResponseStatus.Code
	}
	return w
}
