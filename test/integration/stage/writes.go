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
	// A scheduler has settled if it writes nothing for the duration quiet. settling is the longest
	// time until it must have settled.
	quiet    = 10 * time.Second
	settling = 90 * time.Second
	// During a test, a scheduler may write the same content to an object mostAlike times. It may
	// write it once more for each alikePause, and once more for each binding by another test. A
	// scheduler may repeat a message, because other tests change the state of the shared cluster
	// back and forth.
	mostAlike, alikePause = 10, 2 * time.Second
)

// writer is the start of the user agent of a scheduler and its controllers.
const writer = "reprieve-scheduler/"

// auditPolicy makes the API server record all writes with their content. It excludes Leases, which
// are renewed continuously, and reviews of permissions, which change nothing.
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

// write is a recorded request of a scheduler or its controllers that changes an object.
type write struct {
	at time.Time
	// what is the verb and the path of the request.
	what, namespace string
	// body is the content of the request, without times and resource versions.
	body string
	code int32
}

// settles fails the test if a scheduler still writes although nothing happens.
func (s *Stage) settles() {
	s.Helper()
	if s.Failed() || !s.schedules() {
		// No scheduler is running.
		return
	}
	if err := s.comeToRest(); err != nil {
		s.Error(err)
	}
}

// comeToRest waits until no scheduler has written anything for the duration quiet, from now on. It
// returns an error if that takes longer than settling.
func (s *Stage) comeToRest() error {
	begun, end := time.Now(), time.Now().Add(settling)
	// Do not parse the earlier part of the log, because it can be large.
	audited := s.auditSize()
	for {
		writes, err := s.writes(audited)
		if err != nil {
			return fmt.Errorf("whether it settles is not known: %w", err)
		}
		since := begun
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

// Unauthorized returns an error that names the writes of the scheduler that its rights do not
// permit, since the start of the playground. It returns nil if there are none.
func (s *Stage) Unauthorized() error {
	writes, err := s.writes(0, `"authorization.k8s.io/decision":"forbid"`)
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range writes {
		errs = append(errs, fmt.Errorf("the scheduler may not %s", w.what))
	}
	return errors.Join(errs...)
}

// saysNothingTwice fails the test if the same content has been written too often to an object in
// the test's namespace. It is for a shared cluster, where schedulers never settle.
func (s *Stage) saysNothingTwice() {
	s.Helper()
	if s.Failed() {
		return
	}
	// Parse only the lines of this namespace and the bindings, because the log has the writes of
	// all tests.
	writes, err := s.writes(s.audited, fmt.Sprintf("%q:%q", "namespace", s.Namespace), "/binding")
	if err != nil {
		s.Errorf("what has been written is not known: %v", err)
		return
	}
	said, most := make(map[string]int), mostAlike+int(time.Since(s.begun)/alikePause)
	for _, w := range writes {
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

// schedules reports whether a scheduler is running.
func (s *Stage) schedules() bool {
	return slices.ContainsFunc(s.Run.Components(), func(c *playground.Component) bool {
		return strings.Contains(c.Name(), playground.Scheduler) && c.PID() != 0
	})
}

// last formats the writes of the last period as text.
func last(writes []write, period time.Duration) string {
	var b strings.Builder
	for _, w := range writes {
		if time.Since(w.at) < period {
			fmt.Fprintf(&b, "  %s %s %d %.300s\n", w.at.Format(time.TimeOnly), w.what, w.code, w.body)
		}
	}
	return b.String()
}

// changing matches parts of a request that may differ although its meaning is the same: times and
// resource versions.
var changing = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"|"resourceVersion":"\d+"`)

// auditSize returns the present size of the audit log in bytes; 0 if there is no log.
func (s *Stage) auditSize() int64 {
	info, err := os.Stat(s.Run.AuditLog())
	if err != nil {
		return 0
	}
	return info.Size()
}

// writes returns the writes in the audit log from an offset in bytes, the oldest first. It skips
// the lines that contain none of the words. Without words, it returns all writes.
func (s *Stage) writes(from int64, words ...string) ([]write, error) {
	file, err := os.Open(s.Run.AuditLog())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	// A log that is smaller than the offset is a new file.
	if from <= s.auditSize() {
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
	}
	var out []write
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// The last line may be incomplete, because the API server is writing it.
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if !containsAny(line, words) || !bytes.Contains(line, []byte(writer)) {
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

// containsAny reports whether a line contains any of the words, or there are no words.
func containsAny(line []byte, words []string) bool {
	return len(words) == 0 || slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(line, []byte(word)) })
}

// isWrite reports whether an audit event is a write. It excludes Leases, which are renewed
// continuously, and reviews of permissions, which change nothing.
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
