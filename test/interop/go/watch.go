// The Watch service, message by message, as upstream's server answers it; and clientv3's own watch. The program
// `go-client ENDPOINT watch` runs these; they hold for upstream's server too.
package main

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

const quiet = 300 * time.Millisecond

// A raw stream: requests out, responses in through a channel.
type stream struct {
	pb.Watch_WatchClient
	in     chan *pb.WatchResponse
	ended  chan error
	cancel context.CancelFunc
}

func open(ctx context.Context, c *clientv3.Client) (*stream, error) {
	inner, cancel := context.WithCancel(ctx)
	w, err := pb.NewWatchClient(c.ActiveConnection()).Watch(inner)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{w, make(chan *pb.WatchResponse, 1<<16), make(chan error, 1), cancel}
	go func() {
		for {
			r, err := w.Recv()
			if err != nil {
				s.ended <- err
				return
			}
			s.in <- r
		}
	}()
	return s, nil
}

func (s *stream) next() (*pb.WatchResponse, error) {
	select {
	case r := <-s.in:
		return r, nil
	case err := <-s.ended:
		return nil, fmt.Errorf("the stream ended: %w", err)
	case <-time.After(10 * time.Second):
		return nil, fmt.Errorf("no response within 10 s")
	}
}

func (s *stream) create(r *pb.WatchCreateRequest) error {
	return s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
}

func (s *stream) drop(id int64) error {
	return s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
}

func (s *stream) progress() error {
	return s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// One line of what a response says; revisions relative to `base`.
func line(r *pb.WatchResponse, base int64) string {
	var b strings.Builder
	if r.Header.Revision != 0 {
		fmt.Fprintf(&b, "r%d", r.Header.Revision-base)
	} else {
		b.WriteString("r-")
	}
	fmt.Fprintf(&b, " #%d", r.WatchId)
	for _, f := range []struct {
		on   bool
		name string
	}{{r.Created, " created"}, {r.Canceled, " canceled"}, {r.Fragment, " fragment"}} {
		if f.on {
			b.WriteString(f.name)
		}
	}
	if r.CompactRevision != 0 {
		fmt.Fprintf(&b, " compact%d", r.CompactRevision-base)
	}
	if r.CancelReason != "" {
		fmt.Fprintf(&b, " %q", r.CancelReason)
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, " %s:%s=%s@%d,%d,%d,%d", map[mvccpb.Event_EventType]string{mvccpb.PUT: "P", mvccpb.DELETE: "D"}[e.Type],
			e.Kv.Key[strings.LastIndexByte(string(e.Kv.Key), '/')+1:], e.Kv.Value, rel(e.Kv.CreateRevision, base),
			rel(e.Kv.ModRevision, base), e.Kv.Version, e.Kv.Lease)
		if e.PrevKv != nil {
			fmt.Fprintf(&b, "<%s@%d", e.PrevKv.Value, e.PrevKv.ModRevision-base)
		}
	}
	return b.String()
}

func rel(rev, base int64) int64 {
	if rev == 0 {
		return 0
	}
	return rev - base
}

func (s *stream) want(base int64, lines ...string) error {
	for _, want := range lines {
		r, err := s.next()
		if err != nil {
			return fmt.Errorf("expected %q: %w", want, err)
		}
		if seen := line(r, base); seen != want {
			return fmt.Errorf("expected %q, seen %q", want, seen)
		}
	}
	return nil
}

func (s *stream) silent(base int64) error {
	select {
	case r := <-s.in:
		return fmt.Errorf("expected nothing, seen %q", line(r, base))
	case err := <-s.ended:
		return err
	case <-time.After(quiet):
		return nil
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A prefix of its own, and the revision before anything is written under it.
func begin(ctx context.Context, c *clientv3.Client) (string, int64, *stream, error) {
	prefix := fmt.Sprintf("watch/%d/", rand.Int63())
	r, err := c.Get(ctx, prefix)
	if err != nil {
		return "", 0, nil, err
	}
	s, err := open(ctx, c)
	return prefix, r.Header.Revision, s, err
}

func watchIDs(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	key, end := []byte(p+"a"), []byte(p+"b")
	return firstError(
		s.create(&pb.WatchCreateRequest{Key: key}), s.want(base, "r0 #0 created"),
		s.create(&pb.WatchCreateRequest{Key: key}), s.want(base, "r0 #1 created"),
		s.create(&pb.WatchCreateRequest{Key: key, WatchId: 3}), s.want(base, "r0 #3 created"),
		s.create(&pb.WatchCreateRequest{Key: key, WatchId: -5}), s.want(base, "r0 #-5 created"),
		s.create(&pb.WatchCreateRequest{Key: key}), s.want(base, "r0 #2 created"),
		s.create(&pb.WatchCreateRequest{Key: key}), s.want(base, "r0 #4 created"),
		s.create(&pb.WatchCreateRequest{Key: key, WatchId: 3}),
		s.want(base, `r0 #-1 created canceled "mvcc: duplicate watch ID provided on the WatchStream"`),
		s.create(&pb.WatchCreateRequest{Key: end, RangeEnd: key, WatchId: 3}),
		s.want(base, `r0 #-1 created canceled "mvcc: watcher range is empty"`),
		s.create(&pb.WatchCreateRequest{Key: key, RangeEnd: key}),
		s.want(base, `r0 #-1 created canceled "mvcc: watcher range is empty"`),
		s.create(&pb.WatchCreateRequest{Key: end, RangeEnd: key, StartRevision: -1}),
		s.want(base, `r0 #-1 created canceled "etcdserver: mvcc: required revision has been compacted"`),
		s.drop(77), s.silent(base),
		s.drop(1), s.want(base, "r0 #1 canceled"),
		s.create(&pb.WatchCreateRequest{Key: key}), s.want(base, "r0 #5 created"),
		s.create(&pb.WatchCreateRequest{Key: key, WatchId: 1}), s.want(base, "r0 #1 created"))
}

func put(ctx context.Context, c *clientv3.Client, key, value string) error {
	_, err := c.Put(ctx, key, value)
	return err
}

func del(ctx context.Context, c *clientv3.Client, key string) error {
	_, err := c.Delete(ctx, key)
	return err
}

func watchEvents(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	both := []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT, pb.WatchCreateRequest_NODELETE}
	err = firstError(
		s.create(&pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(p + "z"), PrevKv: true}), s.want(base, "r0 #0 created"),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), Filters: both}), s.want(base, "r0 #1 created"),
		put(ctx, c, p+"a", "1"), s.want(base, "r1 #0 P:a=1@1,1,1,0"),
		put(ctx, c, p+"a", "2"), s.want(base, "r2 #0 P:a=2@1,2,2,0<1@1"),
		del(ctx, c, p+"a"), s.want(base, "r3 #0 D:a=@0,3,0,0<2@2"),
		del(ctx, c, p+"a"), put(ctx, c, p+"a", "3"), s.want(base, "r4 #0 P:a=3@4,4,1,0"))
	if err != nil {
		return err
	}
	_, err = c.Txn(ctx).Then(clientv3.OpPut(p+"c", "1"), clientv3.OpPut(p+"b", "2"), clientv3.OpDelete(p+"a")).Commit()
	return firstError(err, s.want(base, "r5 #0 P:c=1@5,5,1,0 P:b=2@5,5,1,0 D:a=@0,5,0,0<3@4"),
		s.drop(0), s.want(base, "r5 #0 canceled"), put(ctx, c, p+"a", "4"), s.silent(base))
}

func watchFilters(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	return firstError(put(ctx, c, p+"a", "1"), del(ctx, c, p+"a"), put(ctx, c, p+"a", "2"),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), StartRevision: base + 1,
			Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}}),
		s.want(base, "r3 #0 created", "r3 #0 D:a=@0,2,0,0"), s.drop(0), s.want(base, "r3 #0 canceled"),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), StartRevision: base + 1,
			Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}}),
		s.want(base, "r3 #1 created", "r3 #1 P:a=1@1,1,1,0 P:a=2@3,3,1,0"), s.drop(1), s.want(base, "r3 #1 canceled"),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), StartRevision: base + 5}), s.want(base, "r3 #2 created"),
		put(ctx, c, p+"a", "3"), s.silent(base), put(ctx, c, p+"a", "4"), s.want(base, "r5 #2 P:a=4@3,5,3,0"))
}

func watchHistory(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	for i := 0; i < 2500; i++ {
		if err := put(ctx, c, p+"a", "x"); err != nil {
			return err
		}
	}
	if err := firstError(s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), StartRevision: base + 1}),
		s.want(base, "r2500 #0 created")); err != nil {
		return err
	}
	next := base + 1
	for _, size := range []int{1000, 1000, 500} {
		r, err := s.next()
		if err != nil {
			return err
		}
		if len(r.Events) != size || r.Header.Revision != base+2500 {
			return fmt.Errorf("expected %d events, seen %d at revision %d", size, len(r.Events), r.Header.Revision-base)
		}
		for _, e := range r.Events {
			if e.Kv.ModRevision != next {
				return fmt.Errorf("expected revision %d, seen %d", next, e.Kv.ModRevision)
			}
			next++
		}
	}
	return nil
}

func watchCompacted(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	err = firstError(put(ctx, c, p+"a", "1"), put(ctx, c, p+"a", "2"), put(ctx, c, p+"a", "3"))
	if err != nil {
		return err
	}
	_, err = c.Compact(ctx, base+2)
	return firstError(err, s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), StartRevision: base + 1}),
		s.want(base, "r3 #0 created", "r- #0 canceled compact2"),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), StartRevision: base + 2, PrevKv: true}),
		s.want(base, "r3 #1 created", "r3 #1 P:a=2@1,2,2,0 P:a=3@1,3,3,0<2@2"),
		s.progress(), s.silent(base), s.drop(0), ignoreProgress(s, base))
}

// The progress request above was held back by the cancelled watcher: our server answers it now, upstream's never does.
func ignoreProgress(s *stream, base int64) error {
	r, err := s.next()
	if err == nil && line(r, base) == "r3 #-1" {
		r, err = s.next()
	}
	if err != nil {
		return err
	}
	if seen := line(r, base); seen != "r3 #0 canceled" {
		return fmt.Errorf("expected the end of #0, seen %q", seen)
	}
	return nil
}

func watchProgress(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	return firstError(s.progress(), s.silent(base),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a")}), s.want(base, "r0 #0 created"),
		s.progress(), s.want(base, "r0 #-1"),
		put(ctx, c, p+"b", "1"), s.progress(), s.want(base, "r1 #-1"),
		put(ctx, c, p+"a", "1"), s.want(base, "r2 #0 P:a=1@2,2,1,0"), s.progress(), s.want(base, "r2 #-1"),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), StartRevision: base + 9}), s.want(base, "r2 #1 created"),
		s.progress(), s.silent(base))
}

// The member is started with --watch-progress-notify-interval=1s.
func watchNotices(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	return firstError(s.create(&pb.WatchCreateRequest{Key: []byte(p + "a"), ProgressNotify: true}),
		s.create(&pb.WatchCreateRequest{Key: []byte(p + "a")}), s.want(base, "r0 #0 created", "r0 #1 created"),
		put(ctx, c, p+"b", "1"), s.want(base, "r1 #0", "r1 #0"))
}

func watchFragments(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	value := strings.Repeat("v", 60000)
	for i := 0; i < 100; i++ {
		if err := put(ctx, c, fmt.Sprintf("%s%03d", p, i), value); err != nil {
			return err
		}
	}
	request := &pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(p + "z"), StartRevision: base + 1, Fragment: true}
	if err := firstError(s.create(request), s.want(base, "r100 #0 created")); err != nil {
		return err
	}
	for i, size := range []int{34, 34, 32} {
		r, err := s.next()
		if err != nil || len(r.Events) != size || r.Fragment != (i < 2) {
			return fmt.Errorf("expected %d events in fragment %d, seen %v", size, i, err)
		}
	}
	if _, err := c.Delete(ctx, p, clientv3.WithPrefix()); err != nil {
		return err
	}
	if r, err := s.next(); err != nil || len(r.Events) != 100 || r.Fragment {
		return fmt.Errorf("expected 100 deletions in one response, seen %v", err)
	}
	return nil
}

// One revision of 100,000 deletions, with previous values: a response of many fragments, none above 2 MiB.
func watchHugeRevision(ctx context.Context, c *clientv3.Client) error {
	const count = 100000
	p, _, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	value := strings.Repeat("v", 50)
	for i := 0; i < count; i += 100 {
		ops := []clientv3.Op{}
		for k := i; k < i+100; k++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%06d", p, k), value))
		}
		if _, err := c.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	if err := s.create(&pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(p + "z"), PrevKv: true, Fragment: true}); err != nil {
		return err
	}
	if r, err := s.next(); err != nil || !r.Created {
		return fmt.Errorf("expected a watcher, seen %v %v", r, err)
	}
	done, err := c.Delete(ctx, p, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for seen, more := 0, true; more; {
		r, err := s.next()
		if err != nil || r.Header.Revision != done.Header.Revision {
			return fmt.Errorf("after %d events: %v", seen, err)
		}
		for _, e := range r.Events {
			if string(e.Kv.Key) != fmt.Sprintf("%s%06d", p, seen) || e.PrevKv == nil || string(e.PrevKv.Value) != value {
				return fmt.Errorf("event %d: seen %v", seen, e)
			}
			seen++
		}
		if more = r.Fragment; !more && seen != count {
			return fmt.Errorf("expected %d events, seen %d", count, seen)
		}
	}
	return nil
}

func watchHalfClosed(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	return firstError(s.create(&pb.WatchCreateRequest{Key: []byte(p + "a")}), s.want(base, "r0 #0 created"), s.CloseSend(),
		s.silent(base), put(ctx, c, p+"a", "1"), s.want(base, "r1 #0 P:a=1@1,1,1,0"))
}

func watchWithLeader(ctx context.Context, c *clientv3.Client) error {
	return watchProgress(metadata.AppendToOutgoingContext(ctx, "hasleader", "true"), c)
}

// Watchers of one key on several streams: all get each event.
func watchManyOfOne(ctx context.Context, c *clientv3.Client) error {
	const streams, each, rounds = 10, 1000, 5
	p, base, first, err := begin(ctx, c)
	if err != nil {
		return err
	}
	first.cancel()
	var group sync.WaitGroup
	var seen atomic.Int64
	var failed atomic.Value
	ready := make(chan struct{}, streams)
	for n := 0; n < streams; n++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := oneOfMany(ctx, c, p+"a", each, rounds, base, ready, &seen); err != nil {
				failed.Store(err)
				ready <- struct{}{}
			}
		}()
	}
	for n := 0; n < streams; n++ {
		<-ready
	}
	start := time.Now()
	for i := 0; i < rounds; i++ {
		if err := put(ctx, c, p+"a", "x"); err != nil {
			return err
		}
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return err.(error)
	}
	fmt.Printf("# %d events to %d watchers of one key: %v\n", seen.Load(), streams*each, time.Since(start))
	return nil
}

func oneOfMany(ctx context.Context, c *clientv3.Client, key string, each, rounds int, base int64, ready chan struct{},
	seen *atomic.Int64) error {
	s, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	sent := make(chan error, 1)
	go func() {
		for i := 0; i < each; i++ {
			if err := s.create(&pb.WatchCreateRequest{Key: []byte(key)}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := 0; i < each; i++ {
		if err := s.want(base, fmt.Sprintf("r0 #%d created", i)); err != nil {
			return err
		}
	}
	if err := <-sent; err != nil {
		return err
	}
	ready <- struct{}{}
	at := make([]int64, each)
	for i := 0; i < each*rounds; i++ {
		r, err := s.next()
		if err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
		for _, e := range r.Events {
			at[r.WatchId]++
			if e.Kv.ModRevision-base != at[r.WatchId] {
				return fmt.Errorf("watcher %d: expected revision %d, seen %d", r.WatchId, at[r.WatchId], e.Kv.ModRevision-base)
			}
			seen.Add(1)
		}
		i += len(r.Events) - 1
	}
	return nil
}

// As many watchers as keys on one stream.
func watchManyKeys(ctx context.Context, c *clientv3.Client) error {
	const count = 100000
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	start := time.Now()
	go func() {
		for i := 0; i < count; i++ {
			if s.create(&pb.WatchCreateRequest{Key: []byte(fmt.Sprintf("%s%06d", p, i))}) != nil {
				return
			}
		}
	}()
	for i := 0; i < count; i++ {
		if err := s.want(base, fmt.Sprintf("r0 #%d created", i)); err != nil {
			return err
		}
	}
	made := time.Since(start)
	for i := 0; i < 1000; i++ {
		key := fmt.Sprintf("%06d", i*97%count)
		if err := firstError(put(ctx, c, p+key, "x"),
			s.want(base, fmt.Sprintf("r%d #%d P:%s=x@%d,%d,1,0", i+1, i*97%count, key, i+1, i+1))); err != nil {
			return err
		}
	}
	fmt.Printf("# %d watchers of as many keys made in %v; 1000 puts in %v\n", count, made, time.Since(start)-made)
	return nil
}

// Bulk reads on the same connection do not hold up a watch.
func watchBesideReads(ctx context.Context, c *clientv3.Client) error {
	p, base, s, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer s.cancel()
	value := strings.Repeat("v", 100000)
	for i := 0; i < 200; i++ {
		if err := put(ctx, c, fmt.Sprintf("%sbulk%d", p, i), value); err != nil {
			return err
		}
	}
	if err := firstError(s.create(&pb.WatchCreateRequest{Key: []byte(p + "a")}), s.want(base, "r200 #0 created")); err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var reads atomic.Int64
	for n := 0; n < 4; n++ {
		go func() {
			for inner.Err() == nil {
				if _, err := c.Get(inner, p+"bulk", clientv3.WithPrefix()); err == nil {
					reads.Add(1)
				}
			}
		}()
	}
	worst := time.Duration(0)
	for i := int64(1); i <= 50; i++ {
		start := time.Now()
		if err := firstError(put(ctx, c, p+"a", "x"), s.want(base, fmt.Sprintf("r%d #0 P:a=x@201,%d,%d,0", 200+i, 200+i, i))); err != nil {
			return err
		}
		worst = max(worst, time.Since(start))
	}
	fmt.Printf("# beside %d reads of 20 MB the slowest event took %v\n", reads.Load(), worst)
	if worst > 5*time.Second {
		return fmt.Errorf("an event took %v", worst)
	}
	return nil
}

// A reader that stops for a while gets everything later, and others are not held up by it.
func watchSlowReader(ctx context.Context, c *clientv3.Client) error {
	p, base, quick, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer quick.cancel()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	slow, err := pb.NewWatchClient(c.ActiveConnection()).Watch(inner)
	if err != nil {
		return err
	}
	request := &pb.WatchCreateRequest{Key: []byte(p), RangeEnd: []byte(p + "z")}
	if err := firstError(quick.create(request), quick.want(base, "r0 #0 created"),
		slow.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: request}})); err != nil {
		return err
	}
	if _, err := slow.Recv(); err != nil {
		return err
	}
	const puts = 3000
	value := strings.Repeat("v", 2000)
	for i := int64(1); i <= puts; i++ {
		if err := put(ctx, c, p+"a", value); err != nil {
			return err
		}
		r, err := quick.next()
		if err != nil || r.Header.Revision != base+i || len(r.Events) != 1 {
			return fmt.Errorf("expected event %d at once, seen %v %v", i, err, r)
		}
	}
	for next := base + 1; next <= base+puts; {
		r, err := slow.Recv()
		if err != nil {
			return err
		}
		for _, e := range r.Events {
			if e.Kv.ModRevision != next {
				return fmt.Errorf("expected revision %d, seen %d", next, e.Kv.ModRevision)
			}
			next++
		}
	}
	return nil
}

// clientv3's watch: from the past, then live, in order and without a gap.
func watchByClient(ctx context.Context, c *clientv3.Client) error {
	p := fmt.Sprintf("watch/%d/", rand.Int63())
	first, err := c.Put(ctx, p+"a", "0")
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	events := c.Watch(inner, p, clientv3.WithPrefix(), clientv3.WithRev(first.Header.Revision), clientv3.WithCreatedNotify())
	go func() {
		for i := 1; i < 500; i++ {
			_ = put(inner, c, p+"a", fmt.Sprint(i))
		}
	}()
	for next := 0; next < 500; {
		r, ok := <-events
		if !ok || r.Err() != nil {
			return fmt.Errorf("after %d: %v", next, r.Err())
		}
		for _, e := range r.Events {
			if string(e.Kv.Value) != fmt.Sprint(next) {
				return fmt.Errorf("expected %d, seen %s", next, e.Kv.Value)
			}
			next++
		}
	}
	return nil
}

// collect gathers events under a prefix until the key "end" is written.
func collect(ctx context.Context, c *clientv3.Client, p string, rev int64) ([]string, error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := []string{}
	for r := range c.Watch(inner, p, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithPrevKV()) {
		if r.Err() != nil {
			return nil, r.Err()
		}
		for _, e := range r.Events {
			if e.PrevKv != nil {
				seen = append(seen, fmt.Sprintf("%d:%s<%s", e.Kv.ModRevision, e.Kv.Value, e.PrevKv.Value))
			} else {
				seen = append(seen, fmt.Sprintf("%d:%s", e.Kv.ModRevision, e.Kv.Value))
			}
			if string(e.Kv.Key) == p+"end" {
				return seen, nil
			}
		}
	}
	return nil, fmt.Errorf("the watch ended after %d events", len(seen))
}

// insist repeats a put over restarts of the member.
func insist(ctx context.Context, c *clientv3.Client, key, value string) error {
	for {
		inner, cancel := context.WithTimeout(ctx, time.Second)
		err := put(inner, c, key, value)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// The member is restarted by the caller at the line "now": what clientv3 saw live is what history says afterwards.
func watchOverRestart(ctx context.Context, c *clientv3.Client) error {
	p := fmt.Sprintf("watch/%d/", rand.Int63())
	first, err := c.Put(ctx, p+"a", "0")
	if err != nil {
		return err
	}
	wrote := make(chan error, 1)
	go func() {
		for i := 1; i < 400; i++ {
			if i == 200 {
				fmt.Println("now")
			}
			if err := insist(ctx, c, p+"a", fmt.Sprint(i)); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- insist(ctx, c, p+"end", "1")
	}()
	live, err := collect(ctx, c, p, first.Header.Revision)
	if err = firstError(err, <-wrote); err != nil {
		return err
	}
	later, err := collect(ctx, c, p, first.Header.Revision)
	if err != nil {
		return err
	}
	if strings.Join(live, " ") != strings.Join(later, " ") {
		return fmt.Errorf("expected %v, seen %v", later, live)
	}
	return nil
}

func watchTests() []test {
	return []test{{"watch: ids and refusals", watchIDs}, {"watch: events", watchEvents}, {"watch: filters and starts", watchFilters},
		{"watch: a history is cut at 1000 revisions", watchHistory}, {"watch: compacted start", watchCompacted},
		{"watch: progress requests", watchProgress}, {"watch: progress notices", watchNotices},
		{"watch: fragments", watchFragments}, {"watch: a revision of 100,000 events", watchHugeRevision},
		{"watch: half-closed", watchHalfClosed},
		{"watch: a stream that wants a leader", watchWithLeader}, {"watch: 10,000 watchers of one key", watchManyOfOne},
		{"watch: 100,000 watchers of as many keys", watchManyKeys}, {"watch: beside bulk reads", watchBesideReads},
		{"watch: a slow reader", watchSlowReader}, {"watch: clientv3", watchByClient}}
}
