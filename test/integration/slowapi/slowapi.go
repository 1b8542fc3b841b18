package slowapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Forever is a delay for Answer.Before. It holds a call until its caller ends.
const Forever = 24 * time.Hour

// Call describes an API call.
type Call struct {
	Method, Path string
	// Body is the body of the request. It is empty for a GET.
	Body []byte
	// Watch is true if the call is a watch.
	Watch bool
}

// Answer tells the proxy how to handle a call. With the zero Answer, the proxy forwards the call
// without a delay.
type Answer struct {
	// Before is the delay before the call is forwarded, and After is the delay of the response. If
	// the caller ends during Before, the call is not forwarded. After a call is forwarded, it
	// completes even if the caller ends.
	Before, After time.Duration
	// Until, if not nil, holds the call until the channel is closed. The delay Before follows.
	Until <-chan struct{}
	// Refuse is the HTTP status code of an error response by the proxy, or 0 to forward the call. A
	// response with the code 429 tells the client to retry after a second.
	Refuse int
	// If Pretend is true, the proxy responds with the body of the request, as if the API server had
	// accepted it. The call is not forwarded.
	Pretend bool
}

// Rule returns the Answer for a call. A Rule must be safe for concurrent use.
type Rule func(Call) Answer

// Proxy forwards calls to an API server. Its methods are safe for concurrent use.
type Proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy
	// running is canceled at the end of the test.
	running context.Context

	mu   sync.RWMutex
	rule Rule
	// watching has the watches that CutWatches ends.
	watching watches
	// behind is how far the callers' clocks are behind the API server's clock.
	behind time.Duration
	// active is the number of calls in progress whose Answer is not the zero Answer.
	active atomic.Int64
}

// Start starts a proxy that ends with the test. It uses the credentials of config for all calls.
func Start(t testing.TB, config *rest.Config) *Proxy {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	running, end := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Proxy{running: running, forward: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		// Forward the events of watches without a delay.
		FlushInterval: -1,
		// Break the connection, like an API server that stops.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		// Ignore the log, because the tests break connections on purpose.
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	p.forward.ModifyResponse = setForward
	p.watching = newWatches(running)
	p.Clear()
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		// Close the connections first. Otherwise Close would wait for callers that still run, and
		// these would reconnect.
		end()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Set sets the rule for all later calls.
func (p *Proxy) Set(rule Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Clear removes the rule: all later calls are forwarded without a delay.
func (p *Proxy) Clear() { p.Set(func(Call) Answer { return Answer{} }) }

// Active returns the number of calls in progress whose Answer is not the zero Answer. After all
// callers have ended, it becomes 0 when each of these calls is completed or dropped.
func (p *Proxy) Active() int { return int(p.active.Load()) }

// Kubeconfig writes a kubeconfig with the address of the proxy, and returns its path.
func (p *Proxy) Kubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: p.server.URL}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"proxy": {}},
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy", AuthInfo: "proxy"}},
		CurrentContext: "proxy",
	}, path)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	return path
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	call := Call{Method: r.Method, Path: r.URL.Path, Watch: r.Method == http.MethodGet && r.URL.Query().Get("watch") != ""}
	if r.Method != http.MethodGet {
		var err error
		// Read the whole body. The HTTP server notices the end of the caller only after that.
		if call.Body, err = io.ReadAll(r.Body); err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(call.Body))
	}
	answer := p.ask(call)
	r = p.setBack(r, call.Body)
	life, ended := p.lifeOf(call)
	defer ended()
	caller, cancel := bind(r.Context(), life)
	defer cancel()
	if answer == (Answer{}) {
		p.forward.ServeHTTP(w, r.WithContext(caller))
		return
	}
	defer p.active.Add(-1)
	if !held(caller, answer.Until) || !pause(caller, answer.Before) {
		return
	}
	if answer.Refuse != 0 {
		refuse(w, answer.Refuse)
		return
	}
	if answer.Pretend {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(call.Body)
		return
	}
	through, done := bind(context.WithoutCancel(r.Context()), life)
	defer done()
	p.forward.ServeHTTP(&late{ResponseWriter: w, caller: caller, by: answer.After}, r.WithContext(through))
}

// bind returns a copy of ctx that is also canceled when the context "with" is canceled.
func bind(ctx, with context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(with, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// ask returns the Answer for a call. It increases active if the Answer is not the zero Answer.
func (p *Proxy) ask(call Call) Answer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	answer := p.rule(call)
	if answer != (Answer{}) {
		p.active.Add(1)
	}
	return answer
}

// held waits until the channel is closed. It returns true at once if the channel is nil, and false
// if the caller ends first.
func held(caller context.Context, until <-chan struct{}) bool {
	if until == nil {
		return true
	}
	select {
	case <-until:
		return true
	case <-caller.Done():
		return false
	}
}

// pause waits for a duration. It returns false if the caller ends first.
func pause(caller context.Context, d time.Duration) bool {
	if caller.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-caller.Done():
		return false
	}
}

// late is a response writer that delays the response.
type late struct {
	http.ResponseWriter

	caller context.Context
	by     time.Duration
	once   sync.Once
}

// WriteHeader implements http.ResponseWriter. The first call waits for the delay.
func (l *late) WriteHeader(status int) {
	l.once.Do(func() { pause(l.caller, l.by) })
	l.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer for http.ResponseController, so that the proxy can flush
// streams.
func (l *late) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// refuse responds with an error in the format of the API server.
func refuse(w http.ResponseWriter, code int) {
	reason := metav1.StatusReasonInternalError
	switch code {
	case http.StatusForbidden:
		reason = metav1.StatusReasonForbidden
	case http.StatusTooManyRequests:
		reason = metav1.StatusReasonTooManyRequests
		w.Header().Set("Retry-After", "1")
	}
	raw, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: fmt.Sprintf("refused by the test (%d)", code),
	})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(raw)
}
