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

// Forever as a delay before a call keeps the call from the API server until its caller ends.
const Forever = 24 * time.Hour

// Call describes a call.
type Call struct {
	Method, Path string
	// Body is the content of a call that writes.
	Body []byte
	// Watch is true for a watch.
	Watch bool
}

// Answer is the treatment of one call. The zero Answer forwards the call at once.
type Answer struct {
	// Before and After are the delays on the way to the API server and back. If the caller ends
	// before the call reaches the API server, the call is dropped. Every other call completes, even
	// if its caller has ended.
	Before, After time.Duration
	// Until, if not nil, delays the call until the channel is closed. This delay is before all
	// others.
	Until <-chan struct{}
	// Refuse is the HTTP status of a response by the proxy itself; 0 for none. The response with
	// status 429 asks for a retry after a second.
	Refuse int
	// Pretend responds with the content of the request, as if it had been written. The API server
	// does not get the call.
	Pretend bool
}

// Rule returns the treatment of a call. It is called from many goroutines.
type Rule func(Call) Answer

// Proxy forwards calls to an API server. Its methods may be called from any goroutine.
type Proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy
	// running is canceled at the end of the test.
	running context.Context

	mu   sync.RWMutex
	rule Rule
	// watching are the watches since the last cut.
	watching watches
	// behind is how much the callers' clocks are behind.
	behind time.Duration
	// active counts the calls under way that were not forwarded at once.
	active atomic.Int64
}

// Start runs a proxy for the duration of the test. All callers have the rights of the
// configuration.
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
		// Watches are streams.
		FlushInterval: -1,
		// The caller sees a broken connection, as with an API server that is down.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		// Broken connections are the purpose of this proxy.
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	p.forward.ModifyResponse = setForward
	p.watching = newWatches(running)
	p.Clear()
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		// Callers that still run would reconnect, and Close would wait for them.
		end()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Set replaces the rule for all calls from now on.
func (p *Proxy) Set(rule Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Clear forwards all calls from now on.
func (p *Proxy) Clear() { p.Set(func(Call) Answer { return Answer{} }) }

// Active returns the number of calls under way that were not forwarded at once. After the callers
// have ended, it becomes 0 once each call is completed or dropped.
func (p *Proxy) Active() int { return int(p.active.Load()) }

// Kubeconfig writes a kubeconfig for the proxy, and returns its path.
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
		// Read the whole body. The server notices the end of a caller only after that.
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

// bind returns a context that also ends with another context.
func bind(ctx, with context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(with, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// ask returns the treatment of a call, and counts the call if it is not forwarded at once.
func (p *Proxy) ask(call Call) Answer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	answer := p.rule(call)
	if answer != (Answer{}) {
		p.active.Add(1)
	}
	return answer
}

// held waits until a channel is closed, if it is not nil. It returns false if the caller has ended.
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

// pause waits. It returns false if the caller has ended.
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

// late delays a response once.
type late struct {
	http.ResponseWriter

	caller context.Context
	by     time.Duration
	once   sync.Once
}

// WriteHeader sends the status after the delay.
func (l *late) WriteHeader(status int) {
	l.once.Do(func() { pause(l.caller, l.by) })
	l.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the proxy flush streams.
func (l *late) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// refuse responds with an error of an API server.
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
