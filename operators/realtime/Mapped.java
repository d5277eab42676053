package trijoin.realtime;

import java.util.Iterator;
import java.util.function.Function;

/** What a function makes of each. */
record Mapped<A, B>(Iterator<A> items, Function<? super A, ? extends B> function) implements Iterator<B> {
    @Override
    public boolean hasNext() {
        return items.hasNext();
    }

    @Override
    public B next() {
        return function.apply(items.next());
    }
}
