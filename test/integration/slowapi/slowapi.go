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

// Forever, before a call, keeps it from the API server until its caller ends.
const Forever = 24 * time.Hour

// Call is what there is to know of a call.
type Call struct {
	Method, Path string
	// Body is that of a call that writes.
	Body []byte
	// Watch is set for a stream of changes.
	Watch bool
}

// Answer says what becomes of one call. The zero Answer lets it through at once.
type Answer struct {
	// Before and After are how long the call takes on its way to the API server, and back. A call whose caller ends
	// before it gets there never does; any other comes through, whoever still waits for it.
	Before, After time.Duration
	// Until, where it is not nil, keeps the call on its way until it is closed, before all else.
	Until <-chan struct{}
	// Refuse is the HTTP status that it is answered with, in the API server's place; 0 for none. Of 429 it is told to come
	// again after a second.
	Refuse int
	// Pretend has it answered with what it sends, as if that had been written. The API server does not hear of it.
	Pretend bool
}

// Rule decides what becomes of a call. It is called from many goroutines.
type Rule func(Call) Answer

// Proxy passes calls on to an API server. Its methods may be called from any goroutine.
type Proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy
	// running ends with the test.
	running context.Context

	mu   sync.RWMutex
	rule Rule
	// watching are the watches since they were cut last.
	watching watches
	// behind is by how much the clock of those who call is behind.
	behind time.Duration
	// active counts the calls that are under way and were not let through at once.
	active atomic.Int64
}

// Start runs a proxy for the duration of the test, with the rights of the configuration for everyone who uses it.
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
		// The caller sees what it would see of an API server that is not there: a connection that breaks.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		// Connections that break are what this is for.
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	p.forward.ModifyResponse = setForward
	p.watching = newWatches(running)
	p.Clear()
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		// Whoever still talks comes back, and would be waited for.
		end()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Set has a rule apply to all calls from now on, in place of the one before.
func (p *Proxy) Set(rule Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Clear lets all calls through from now on.
func (p *Proxy) Clear() { p.Set(func(Call) Answer { return Answer{} }) }

// Active counts the calls under way that are not, or were not, let through at once. When the caller of all of them
// has ended, it comes to 0 as soon as each has been done, or never will be.
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
		// To its end: the server hears of a caller that ends only once there is nothing left to read.
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

// bind ends a context with another.
func bind(ctx, with context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(with, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// ask says what becomes of a call. Once another rule has been set, none is counted any more that this one delays.
func (p *Proxy) ask(call Call) Answer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	answer := p.rule(call)
	if answer != (Answer{}) {
		p.active.Add(1)
	}
	return answer
}

// held waits until a channel is closed, if there is one. It reports false where the caller has gone meanwhile.
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

// pause waits. It reports false where the caller has gone meanwhile.
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

// late holds an answer back, once.
type late struct {
	http.ResponseWriter

	caller context.Context
	by     time.Duration
	once   sync.Once
}

// WriteHeader sends the status when it is time.
func (l *late) WriteHeader(status int) {
	l.once.Do(func() { pause(l.caller, l.by) })
	l.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the proxy flush streams.
func (l *late) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// refuse answers as an API server does that will not, or cannot.
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
