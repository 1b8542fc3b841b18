package playground_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

func TestScheduler(t *testing.T) {
	t.Parallel()
	binDir := playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	p := playgroundtest.Start(t, playground.Options{
		BinDir:     binDir,
		NodeGroups: []playground.NodeGroup{nodeGroup(t, 1)},
		CRDs:       crds.FS,
	})
	requireScheduled(t, p, "first")

	scheduler := p.Component(playground.Scheduler)
	if metrics := getMetrics(t, p.RESTConfig(), scheduler.URL()); !strings.Contains(metrics, "\nscheduler_") {
		t.Errorf("the metrics are\n%s", metrics)
	}

	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	requireScheduled(t, p, "second")

	if err := scheduler.Kill(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	other, err := p.StartScheduler(t.Context(), "other", playground.SchedulerOptions{Ended: func(err error) { ended <- err }})
	if err != nil {
		t.Fatal(err)
	}
	if p.Component("other") != other || other.PID() == 0 || other.LogPath() == scheduler.LogPath() {
		t.Errorf("the other scheduler is %v, process %d, log %s", p.Component("other"), other.PID(), other.LogPath())
	}
	requireScheduled(t, p, "third")

	// The end of this scheduler is reported by Ended only. It is not a failure of the playground.
	if err := syscall.Kill(other.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var exit *playground.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.Component != "other" {
		t.Errorf("got %v, want that the other scheduler was killed", err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("its end counts as a death: %v", err)
	}
	if err := other.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	requireScheduled(t, p, "fourth")
}

// requireScheduled creates a pod for the profile reprieve-scheduler and waits until it runs.
func requireScheduled(t *testing.T, p *playground.Playground, name string) {
	t.Helper()
	client := newClient(t, p)
	pod := newPod(name, func(pod *corev1.Pod) { pod.Spec.SchedulerName = "reprieve-scheduler" })
	if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, client, name, corev1.PodRunning)
}

// getMetrics requests /metrics with the admin's client certificate. The server must accept
// certificates of the API server's authority.
func getMetrics(t *testing.T, config *rest.Config, url string) string {
	t.Helper()
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      roots,
		Certificates: []tls.Certificate{pair},
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %s, error %v", response.Status, err)
	}
	return string(body)
}
