package app

import (
	"bytes"
	"errors"
	"net/http"

	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// The paths of the endpoints that Reprieve adds to the endpoints of kube-scheduler. The ClusterRole
// in deploy/ names these paths.
const (
	decisionsPath = "/debug/reprieve/decisions"
	snapshotPath  = "/debug/reprieve/snapshot"
)

// jsonLines is the content type of responses with one JSON value in each line.
const jsonLines = "application/x-ndjson"

// latestDecisions serves the latest records of decisions, the oldest first, and then the records of
// waits that have ended. The format is the format of the file of --decision-log.
func latestDecisions(log *decisionlog.Log) http.Handler {
	return readOnly(func(w http.ResponseWriter, r *http.Request) {
		latest, ends := log.Latest(), log.Ends()
		var lines bytes.Buffer
		var err error
		for i := range latest {
			err = errors.Join(err, decisionlog.Encode(&lines, &latest[i]))
		}
		for i := range ends {
			err = errors.Join(err, decisionlog.EncodeWaitEnd(&lines, &ends[i]))
		}
		if err != nil {
			http.Error(w, "write the decisions as JSON: "+err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, r, jsonLines, lines.Bytes())
	})
}

// readOnly rejects requests other than GET and HEAD.
func readOnly(handle http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, r.URL.Path+" is only read; ask with GET", http.StatusMethodNotAllowed)
			return
		}
		handle(w, r)
	})
}

// answer sends a document as the response.
func answer(w http.ResponseWriter, r *http.Request, contentType string, document []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := w.Write(document); err != nil {
		klog.FromContext(r.Context()).V(2).Info("Did not send an answer whole", "path", r.URL.Path, "reason", err)
	}
}
