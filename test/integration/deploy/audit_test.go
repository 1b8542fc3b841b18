package deploy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// account is the user name of the scheduler's ServiceAccount.
const account = "system:serviceaccount:" + namespace + ":" + name

// auditPolicy makes the API server record every request of the scheduler, and no other requests.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["` + account + `"]
  - level: None
`

// readAudit returns the scheduler's requests in the audit log. It ignores an incomplete last line,
// because the API server may be writing it.
func readAudit(t *testing.T, path string) []*auditv1.Event {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	var out []*auditv1.Event
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		event := &auditv1.Event{}
		if err := json.Unmarshal(line, event); err != nil {
			t.Fatalf("audit log: %v in %s", err, line)
		}
		if event.User.Username != account {
			t.Fatalf("audit log: the policy does not cover %s", event.User.Username)
		}
		out = append(out, event)
	}
}

// refused returns descriptions of the requests that were rejected because of missing permissions.
func refused(events []*auditv1.Event) []string {
	var out []string
	for _, event := range events {
		if s := event.ResponseStatus; s != nil && (s.Code == http.StatusForbidden || s.Code == http.StatusUnauthorized) {
			out = append(out, event.Verb+" "+event.RequestURI+": "+s.Message)
		}
	}
	return out
}

// complaints returns the lines of a log that mention missing permissions.
func complaints(t *testing.T, logPath string) []string {
	t.Helper()
	raw, err := os.ReadFile(logPath)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		// Cut off the prefix of the line, which contains numbers such as the process ID.
		message := line[strings.Index(line, "] ")+1:]
		// Skip the lines that list the values of flags.
		if strings.HasPrefix(message, " FLAG: ") {
			continue
		}
		lower := strings.ToLower(message)
		if strings.Contains(lower, "forbidden") || strings.Contains(lower, "unauthorized") || strings.Contains(message, " 403") {
			out = append(out, line)
		}
	}
	return out
}
