package slowapi

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// watching starts a watch. The test fails if the watch cannot start.
func watching(t *testing.T, client kubernetes.Interface) watch.Interface {
	t.Helper()
	w, err := client.CoreV1().Pods("ns").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// serveForever responds to watches with an endless stream without events. It responds to all other
// calls with a pod.
func serveForever(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		servePod(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := http.NewResponseController(w).Flush(); err == nil {
		<-r.Context().Done()
	}
}

// TestCutWatches checks that CutWatches ends running watches. Later watches and other calls must
// work.
func TestCutWatches(t *testing.T) {
	t.Parallel()
	p, client := behind(t, serveForever)
	first := watching(t, client)
	p.CutWatches()
	select {
	case _, more := <-first.ResultChan():
		if more {
			t.Error("The watch has an event")
		}
	case <-time.After(patience):
		t.Fatal("The watch goes on")
	}
	second := watching(t, client)
	if _, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	select {
	case <-second.ResultChan():
		t.Error("The next watch has ended as well")
	default:
	}
}

// TestTooManyRequests checks that a client retries after a response with the status 429.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	p, client := behind(t, servePod)
	var calls atomic.Int64
	p.Set(func(Call) Answer {
		if calls.Add(1) == 1 {
			return Answer{Refuse: http.StatusTooManyRequests}
		}
		return Answer{}
	})
	began := time.Now()
	if _, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{}); err != nil || calls.Load() != 2 || time.Since(began) < time.Second {
		t.Errorf("%d calls in %v: %v", calls.Load(), time.Since(began), err)
	}
	p.Set(func(Call) Answer { return Answer{Refuse: http.StatusTooManyRequests} })
	// Without retries, the client must return the reason in the response.
	request := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/ns/pods/p").MaxRetries(0)
	if err := request.Do(t.Context()).Error(); !apierrors.IsTooManyRequests(err) {
		t.Errorf("It is answered with %v", err)
	}
}

// TestPretend checks that a client gets a successful response, and that the API server does not get
// the call.
func TestPretend(t *testing.T) {
	t.Parallel()
	p, client := behind(t, func(http.ResponseWriter, *http.Request) { t.Error("The API server hears of it") })
	p.Set(func(Call) Answer { return Answer{Pretend: true} })
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me")}}
	got, err := client.CoordinationV1().Leases("ns").Update(t.Context(), lease, metav1.UpdateOptions{})
	if err != nil || ptr.Deref(got.Spec.HolderIdentity, "") != "me" {
		t.Errorf("Got %v, %v", got, err)
	}
}

// TestUntil checks that a call waits until the channel Until is closed.
func TestUntil(t *testing.T) {
	t.Parallel()
	p, client := behind(t, servePod)
	release, answered := make(chan struct{}), make(chan error, 1)
	p.Set(func(Call) Answer { return Answer{Until: release} })
	go func() {
		_, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		answered <- err
	}()
	eventuallyActive(t, p, 1)
	select {
	case err := <-answered:
		t.Errorf("It is answered before that: %v", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestBehind tests a client whose clock is behind. The times that it reads must be later than on
// the API server, and the times that it writes must arrive earlier. This must hold in lists and in
// watches.
func TestBehind(t *testing.T) {
	t.Parallel()
	const truth = `"2026-05-01T12:00:00Z"`
	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","creationTimestamp":` + truth + `}}`
	p, client := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPatch:
			body, err := io.ReadAll(r.Body)
			if err != nil || string(body) != `{"renewTime":"2026-05-01T11:59:00.250000Z","note":"2026-05-01"}` {
				t.Errorf("Written is %s, %v", body, err)
			}
			fmt.Fprint(w, pod)
		case r.URL.Query().Get("watch") != "":
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", pod)
			serveForever(w, r)
		default:
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, pod)
		}
	})
	p.SetBehind(time.Minute)
	const want = "2026-05-01T12:01:00Z"
	list, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := list.Items[0].CreationTimestamp.UTC().Format(time.RFC3339); got != want {
		t.Errorf("Listed is %s, want %s", got, want)
	}
	select {
	case event := <-watching(t, client).ResultChan():
		if object, ok := event.Object.(metav1.Object); !ok || object.GetCreationTimestamp().UTC().Format(time.RFC3339) != want {
			t.Errorf("Told is %+v, want %s", event.Object, want)
		}
	case <-time.After(patience):
		t.Fatal("The event does not come")
	}
	body := strings.NewReader(`{"renewTime":"2026-05-01T12:00:00.250000Z","note":"2026-05-01"}`)
	request := client.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath("/api/v1/namespaces/ns/pods/p").Body(body)
	if err := request.Do(t.Context()).Error(); err != nil {
		t.Error(err)
	}
	p.SetBehind(0)
	if list, err = client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{}); err != nil || list.Items[0].CreationTimestamp.UTC().Format(time.RFC3339) == want {
		t.Errorf("With the right clock: %+v, %v", list, err)
	}
}
