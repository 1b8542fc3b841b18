package slowapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const patience = time.Minute

// behind starts a proxy for a server that serve implements. It returns the proxy and a client that
// uses it.
func behind(t *testing.T, serve http.HandlerFunc) (*Proxy, kubernetes.Interface) {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	p := Start(t, &rest.Config{Host: server.URL})
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return p, client
}

// servePod responds to every call with a pod.
func servePod(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`)
}

func TestProxy(t *testing.T) {
	t.Parallel()
	const slow = 60 * time.Millisecond
	cases := map[string]struct {
		answer    Answer
		wantTook  time.Duration
		wantError func(error) bool
	}{
		"let through":      {},
		"slow to get":      {answer: Answer{Before: slow}, wantTook: slow},
		"slow to answer":   {answer: Answer{After: slow}, wantTook: slow},
		"slow both ways":   {answer: Answer{Before: slow, After: slow}, wantTook: 2 * slow},
		"forbidden":        {answer: Answer{Refuse: http.StatusForbidden}, wantError: apierrors.IsForbidden},
		"broken":           {answer: Answer{Refuse: http.StatusInternalServerError}, wantError: apierrors.IsInternalError},
		"slowly forbidden": {answer: Answer{Before: slow, Refuse: http.StatusForbidden}, wantTook: slow, wantError: apierrors.IsForbidden},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, client := behind(t, servePod)
			p.Set(func(call Call) Answer {
				if call.Method != http.MethodPatch || call.Path != "/api/v1/namespaces/ns/pods/p" || string(call.Body) != `{"x":1}` {
					t.Errorf("The call is %s %s %q", call.Method, call.Path, call.Body)
				}
				return c.answer
			})
			patch := func() (string, time.Duration, error) {
				start := time.Now()
				pod, err := client.CoreV1().Pods("ns").Patch(t.Context(), "p", types.MergePatchType, []byte(`{"x":1}`), metav1.PatchOptions{})
				return pod.Name, time.Since(start), err
			}
			pod, took, err := patch()
			switch {
			case c.wantError != nil && !c.wantError(err):
				t.Errorf("It is answered with %v", err)
			case c.wantError == nil && (err != nil || pod != "p"):
				t.Errorf("Got %q, %v", pod, err)
			case took < c.wantTook:
				t.Errorf("It took %v, want at least %v", took, c.wantTook)
			}
			p.Clear()
			if pod, _, err := patch(); err != nil || pod != "p" {
				t.Errorf("Once there is no rule: %q, %v", pod, err)
			}
			// The caller may get the response a moment before the number of active calls decreases.
			eventuallyActive(t, p, 0)
		})
	}
}

// eventuallyActive waits until Active returns a number.
func eventuallyActive(t *testing.T, p *Proxy, want int) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return p.Active() == want, nil
	}); err != nil {
		t.Fatalf("%d calls are under way, want %d", p.Active(), want)
	}
}

// TestProxyAndCallersThatEnd tests callers that end during a call. A call that has reached the API
// server must complete. Other calls must be dropped.
func TestProxyAndCallersThatEnd(t *testing.T) {
	t.Parallel()
	arrived, finish, outcome := make(chan string, 10), make(chan struct{}), make(chan error, 10)
	p, client := behind(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
		<-finish
		outcome <- r.Context().Err()
		servePod(w, r)
	})
	release := sync.OnceFunc(func() { close(finish) })
	t.Cleanup(release)
	p.Set(func(call Call) Answer {
		if strings.HasSuffix(call.Path, "/held") {
			return Answer{Before: Forever}
		}
		return Answer{Before: time.Millisecond}
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answered := make(chan error, 2)
	for _, name := range []string{"held", "sent"} {
		go func() { answered <- client.CoreV1().Pods("ns").Delete(ctx, name, metav1.DeleteOptions{}) }()
	}
	if got := <-arrived; got != "/api/v1/namespaces/ns/pods/sent" {
		t.Errorf("%s has arrived", got)
	}
	eventuallyActive(t, p, 2)
	leave()
	for range 2 {
		if err := <-answered; err == nil {
			t.Error("Who has left has an answer")
		}
	}
	eventuallyActive(t, p, 1)
	release()
	if err := <-outcome; err != nil {
		t.Errorf("The call that had arrived is broken off: %v", err)
	}
	eventuallyActive(t, p, 0)
	if len(arrived) > 0 {
		t.Errorf("%s has arrived as well", <-arrived)
	}
}

// TestProxyStreams checks that the proxy forwards events of a watch without a delay.
func TestProxyStreams(t *testing.T) {
	t.Parallel()
	events := make(chan string)
	p, client := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case name := <-events:
				fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q}}}`+"\n", name)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := client.CoreV1().Pods("ns").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range 2 {
		events <- "p"
		select {
		case <-ctx.Done():
			t.Fatal("An event does not arrive")
		case e := <-w.ResultChan():
			if e.Object == nil {
				t.Fatalf("The event is %+v", e)
			}
		}
	}
	if n := p.Active(); n != 0 {
		t.Errorf("%d calls count as under way, although no rule holds any up", n)
	}
}

// TestProxyWithoutAServer checks that the proxy breaks connections if it cannot reach the API
// server.
func TestProxyWithoutAServer(t *testing.T) {
	t.Parallel()
	p := Start(t, &rest.Config{Host: "http://127.0.0.1:1"})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		_ = response.Body.Close()
		t.Errorf("It is answered with %s", response.Status)
	}
}
